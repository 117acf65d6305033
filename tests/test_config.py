"""Settings: where each value comes from, and what is said of a wrong one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpualert import config
from gpualert.config import (
    OPTIONS,
    Settings,
    Smtp,
    load_settings,
    load_settings_or_defaults,
    read_password,
    shown,
    unknown_variables,
    value_of,
)
from gpualert.errors import ConfigError
from gpualert.values import duration, flag, integer, size, words


@pytest.fixture(autouse=True)
def system_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the machine's settings where the test may write."""
    file = tmp_path / "etc" / "config.yaml"
    file.parent.mkdir()
    monkeypatch.setattr(config, "SYSTEM_FILE", file)
    monkeypatch.delenv("GPUALERT_DIGEST_KEEPER")
    return file


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    """Return the user's settings file; it does not exist yet."""
    file = tmp_path / "config" / "gpualert" / "config.yaml"
    file.parent.mkdir(parents=True)
    return file


def write(file: Path, text: str | bytes, mode: int = 0o600) -> None:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    file.chmod(mode)


def refused(text: str | bytes, file: Path, mode: int = 0o600) -> ConfigError:
    write(file, text, mode)
    with pytest.raises(ConfigError) as caught:
        load_settings()
    assert caught.value.source == str(file)
    assert str(file) in str(caught.value)
    return caught.value


def test_without_files_every_value_is_its_default(tmp_path: Path) -> None:
    settings = load_settings({"HOME": "/home/joe"})
    assert settings == Settings(home=Path("/home/joe/.local/state/gpualert"))
    assert {origin for _, _, origin in shown(settings)} == {"default"}


def test_the_user_overrides_the_machine_and_a_variable_the_user(
    system_file: Path, user_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(system_file, "to: [root@example.org]\nlog_lines: 10\nlonger_than_s: 1h\nsmtp: {host: a, port: 25}", 0o644)
    write(user_file, "log_lines: 20\nlonger_than_s: 2h\nsmtp:\n  host: b\n")
    monkeypatch.setenv("GPUALERT_LONGER_THAN_S", "3h")
    monkeypatch.setenv("GPUALERT_SMTP_HOST", "c")
    settings = load_settings()
    assert settings.to == ("root@example.org",)
    assert (settings.log_lines, settings.longer_than_s) == (20, 10_800.0)
    assert (settings.smtp.host, settings.smtp.port) == ("c", 25)
    assert settings.origins["to"] == settings.origins["smtp.port"] == str(system_file)
    assert settings.origins["log_lines"] == str(user_file)
    assert settings.origins["longer_than_s"] == "GPUALERT_LONGER_THAN_S"
    assert settings.origins["smtp.host"] == "GPUALERT_SMTP_HOST"


@pytest.mark.parametrize(
    ("environ", "home"),
    [
        ({"HOME": "/h"}, "/h/.local/state/gpualert"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/x"}, "/x/gpualert"),
        ({"HOME": "/h", "XDG_STATE_HOME": "relative"}, "/h/.local/state/gpualert"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/x", "GPUALERT_HOME": "/g"}, "/g"),
    ],
)
def test_the_state_folder_is_the_one_the_shell_part_uses(environ: dict[str, str], home: str) -> None:
    assert load_settings(environ).home == Path(home)


def test_without_home_the_password_database_tells_it() -> None:
    assert load_settings({}).home.is_absolute()


def test_on_is_a_key_and_not_a_boolean(user_file: Path) -> None:
    write(user_file, "on: failure\nmail: none\nsmtp:\n  security: none\n  password: 0123\n")
    settings = load_settings()
    assert (settings.on, settings.mail, settings.smtp.security, settings.smtp.password) == (
        "failure",
        "none",
        "none",
        "0123",
    )


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "smtp:\n", "to:\n", "to: ~\nlog_lines: null\n"])
def test_an_empty_file_or_value_changes_nothing(text: str, user_file: Path) -> None:
    write(user_file, text)
    assert load_settings() == Settings(home=load_settings().home, origins=load_settings().origins)


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("lonegr_than_s: 1", "lonegr_than_s", "no such setting; did you mean 'longer_than_s'?"),
        ("smtp: {hots: a}", "smtp.hots", "did you mean 'smtp.host'?"),
        ("password: x", "password", "did you mean 'smtp.password'?"),
        ("zzzzz: 1", "zzzzz", "no such setting"),
        ("smtp: localhost", "smtp", "must hold keys and values, not 'localhost'"),
        ("smtp: [a]", "smtp", "must hold keys and values, not a list"),
        ("- to", "", "must hold keys and values, not a list"),
        ("just words", "", "must hold keys and values"),
        ("log_lines: many", "log_lines", "'many' is no whole number"),
        ("log_lines: -1", "log_lines", "-1 is not between 0 and 1000"),
        ("log_lines: [1]", "log_lines", "must be one text, not a list"),
        ("smtp: {port: 70000}", "smtp.port", "70000 is not between 1 and 65535"),
        ("smtp: {security: ssl}", "smtp.security", "'ssl' is none of starttls, tls, none"),
        ("mail: pigeon", "mail", "'pigeon' is none of maildir, smtp, sendmail, apprise, none"),
        ("on: sometimes", "on", "'sometimes' is none of failure, always"),
        ("longer_than_s: soon", "longer_than_s", "'soon' is no duration"),
        ("attach: {max_file_bytes: big}", "attach.max_file_bytes", "'big' is no size"),
        ("to: {a: b}", "to", "must be one text, not a mapping"),
        ('from: "a@b.org\\nBcc: c@d.org"', "from", "must be one line"),
        ("home: /scratch", "home", "can only be set by the variable GPUALERT_HOME"),
        ("to: a\nlog_lines: 1\nto: b", "to", "line 3: set twice"),
        ("smtp: {host: a, host: b}", "host", "line 1: set twice"),
        ("to: [", "", "line 1: is no YAML"),
        ("to: a\n---\nto: b", "", "line 2: is no YAML"),
        ("a: b\n\tc: d", "", "line 2: is no YAML"),
        ("to: !!python/object:os.system x", "to", ""),
        (b"to: \xff\xfe", "", "is no YAML"),
        ("a: &a [*a]", "", "line 1: is no YAML"),
        ("x: 1\n" * 300_000, "", "is the most"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_wrong_file_is_refused_by_file_key_and_reason(
    text: str | bytes, key: str, reason: str, user_file: Path
) -> None:
    if not reason:  # a tag names no type here: the words stay words
        write(user_file, text)
        assert load_settings().to == ("x",)
        return
    error = refused(text, user_file)
    assert (error.key, reason in error.reason) == (key, True), str(error)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_password_in_a_file_that_others_may_read_is_refused(mode: int, user_file: Path) -> None:
    error = refused("smtp: {password: hunter2}", user_file, mode)
    assert error.key == "smtp.password"
    assert "chmod 600" in error.reason
    assert "hunter2" not in str(error)


def test_a_password_in_a_private_file_is_used_and_never_shown(user_file: Path) -> None:
    write(user_file, "smtp: {password: hunter2}")
    settings = load_settings()
    assert settings.smtp.password == "hunter2"
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in str(shown(settings))


def test_a_file_that_anybody_may_change_is_refused(user_file: Path) -> None:
    assert "anybody may change" in refused("log_lines: 1", user_file, 0o646).reason


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(user_file: Path) -> None:
    write(user_file, "log_lines: 1")
    os.chown(user_file, 12345, -1)
    with pytest.raises(ConfigError, match="belongs to user 12345"):
        load_settings()


def test_a_fifo_in_place_of_the_file_is_refused_at_once(user_file: Path) -> None:
    os.mkfifo(user_file)
    with pytest.raises(ConfigError, match="is not a regular file"):
        load_settings()


def test_a_link_to_the_file_is_followed(user_file: Path, tmp_path: Path) -> None:
    write(tmp_path / "dotfiles.yaml", "log_lines: 7")
    user_file.symlink_to(tmp_path / "dotfiles.yaml")
    assert load_settings().log_lines == 7


def test_a_wrong_variable_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUALERT_LOG_LINES", "many")
    with pytest.raises(ConfigError) as caught:
        load_settings()
    assert str(caught.value) == "cannot use settings of 'GPUALERT_LOG_LINES': 'many' is no whole number"


def test_a_broken_file_leaves_the_defaults_with_the_right_state_folder(user_file: Path, state: Path) -> None:
    write(user_file, "mail: smtp\nto: a@b.org\nlog_lines: many\n")
    settings, error = load_settings_or_defaults()
    assert (settings.mail, settings.home) == ("maildir", state)
    assert error is not None
    assert error.key == "log_lines"


def test_without_trouble_there_is_no_error() -> None:
    assert load_settings_or_defaults() == (load_settings(), None)


def test_a_mistyped_variable_is_pointed_out_and_others_are_not() -> None:
    environ = {
        "GPUALERT_LOGLINES": "1",
        "GPUALERT_RUN_ID": "x",
        "GPUALERT_CHAIN": "y",
        "GPUALERT_TO": "a",
        "OTHER": "1",
    }
    assert unknown_variables(environ) == {"GPUALERT_LOGLINES": "GPUALERT_LOG_LINES"}


def test_every_setting_has_a_line_of_help_and_its_own_variable() -> None:
    options = OPTIONS.values()
    assert len({option.variable for option in options}) == len(options)
    for option in options:
        assert option.help
        assert "\n" not in option.help
        if option.key != "home":
            assert value_of(Settings(), option) == option.default


def test_the_default_of_every_setting_can_be_written_down() -> None:
    for option in OPTIONS.values():
        default = option.default
        assert option.parse(list(default) if isinstance(default, tuple) else str(default)) == default, option.key


def test_yaml_is_not_imported_where_there_is_no_file(tmp_path: Path) -> None:
    code = "import sys; from gpualert import config; config.SYSTEM_FILE = config.Path('/nowhere')"
    code += "; config.load_settings(); sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- the password ---


def test_the_password_command_prints_the_password() -> None:
    assert read_password(Smtp(password_command="printf 'pass word\\nsecond line\\n'")) == "pass word"


def test_a_password_that_is_set_needs_no_command() -> None:
    assert read_password(Smtp(password="a", password_command="exit 1")) == "a"
    assert read_password(Smtp()) == ""


@pytest.mark.parametrize("command", ["exit 3", "true", "echo secret; exit 1", "/nowhere/pass"])
def test_a_password_command_that_fails_is_named_without_what_it_printed(command: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_password(Smtp(password_command=command))
    assert caught.value.source == "smtp.password_command"
    assert "secret" not in str(caught.value)


def test_a_password_command_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    with pytest.raises(ConfigError, match=r"within 0\.5 s"):
        read_password(Smtp(password_command=f"sleep 1000 & echo $! >'{started}'; wait"), timeout_s=0.5)
    process = Path("/proc", started.read_text().strip(), "stat")
    assert not process.exists() or process.read_text().rsplit(")", 1)[1].split()[0] in "ZX"


# --- what people write ---


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("60", 60),
        (" 60 ", 60),
        ("1.5", 1.5),
        ("90s", 90),
        ("11m", 660),
        ("3h", 10_800),
        ("7d", 604_800),
        ("2w", 1_209_600),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("0", 0),
        ("1H", 3600),
        (60, 60),
        (60.5, 60.5),
    ],
)
def test_durations(written: object, seconds: float) -> None:
    assert duration(written) == seconds


@pytest.mark.parametrize(
    "written", ["", "x", "-1", "1x", "1h30", "h", "1 2", "nan", "inf", "1e3", "9" * 400, "1:30", [1]]
)
def test_what_is_no_duration(written: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        duration(written)


@pytest.mark.parametrize(
    ("written", "size_bytes"),
    [
        ("4096", 4096),
        ("10MB", 10_000_000),
        ("10mb", 10_000_000),
        ("1GiB", 1 << 30),
        ("1G", 1 << 30),
        ("1.5k", 1536),
        ("2 TB", 2 * 10**12),
        ("0", 0),
        ("5B", 5),
        ("64K", 65_536),
    ],
)
def test_sizes(written: str, size_bytes: int) -> None:
    assert size(written) == size_bytes


@pytest.mark.parametrize("written", ["", "big", "-1", "1PB", "1 2", "10 M B", "9" * 30, "1e9", "MB"])
def test_what_is_no_size(written: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        size(written)


def test_words_are_a_list_or_parted_by_commas() -> None:
    assert words("a@b.org, c@d.org,,") == words(["a@b.org", "c@d.org", ""]) == ("a@b.org", "c@d.org")
    assert words([]) == ()


@pytest.mark.parametrize("written", ["1", "yes", "True", "on"])
def test_a_yes_is_a_yes(written: str) -> None:
    assert flag(written) is True
    assert flag("no") is False


def test_numbers_are_whole_and_within_bounds() -> None:
    assert integer(0)("12") == 12
    for wrong in ("1.5", "0x10", "１", "1_000", ""):
        with pytest.raises(ValueError, match="is no whole number"):
            integer(0)(wrong)
