"""
The places that announce a secret: URLs, headers, options of well-known programs, files of well-known formats.

Every pattern is linear: repeats are bounded, or end where the text cannot continue them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from gpualert.redact.spans import PLACED, Span, occurrences


@dataclass(frozen=True)
class Announced:
    """
    A secret that is recognised by what stands before it.

    Attributes:
        anchor: Lower-case text that every match begins with.
        pattern: Applied where the anchor stands, ignoring case; its group is the secret.
    """

    anchor: bytes
    pattern: str


_QUOTES = r"""[\\"']{0,4}"""
_WORD = r"""[^\s"'\\,;<>]"""
_MIXED = r"(?=\S{0,40}[0-9])(?=\S{0,40}[A-Za-z])"
_OPTIONS = r"[^\n|;]{0,300}?"  # other arguments of the same command
_NEXT = r"[\s'\",]{1,4}"  # between two arguments, as typed or as a list of Python strings
_TO_SPACE = r"""([^\s'"]{3,300})"""
_HEX40 = r"([0-9a-f]{40})(?![0-9a-f])"

ANNOUNCED = (
    # https://user:password@host: the last @ before the path ends the password
    Announced(b"://", r"""://[^\s/:@"'<>]{0,128}:([^\s/"'<>]{1,300})@"""),
    Announced(b"://", r"://([\w.~%-]{20,300})@"),
    Announced(b"://", r"://([\w.~%-]{8,300}):x-oauth-basic@"),
    Announced(b"key=", r"(?<=[?&])key=([\w-]{16,})"),
    Announced(b"auth=", r"(?<=[?&])auth=([\w.~%-]{8,})"),
    Announced(b"code=", r"(?<=[?&])code=([\w.~/%-]{20,})"),
    Announced(b"state=", r"(?<=[?&])state=([\w.~%-]{16,})"),
    # signed URLs
    Announced(b"sig=", r"sig=([\w%+/=-]{20,})"),
    Announced(b"signature=", r"signature=([\w%+/=-]{20,})"),
    # HTTP headers
    Announced(
        b"authorization",
        rf"authorization{_QUOTES}\]?\s{{0,3}}[:=,]\s{{0,3}}b?{_QUOTES}"
        rf"(?:bearer|basic|token|digest|negotiate|api-?key|bot)\s{{1,3}}({_WORD}{{6,}})",
    ),
    Announced(
        b"authorization",
        rf"authorization{_QUOTES}\]?\s{{0,3}}[:=]\s{{0,3}}b?{_QUOTES}((?=\S{{0,60}}[0-9]){_WORD}{{12,}})",
    ),
    Announced(b"bearer", r"bearer[ :=]{1,3}((?=\S{0,60}[0-9])[\w.~+/=-]{16,})"),
    Announced(b"basic ", r"basic ((?=\S{0,60}[0-9=])[A-Za-z0-9+/]{12,}={0,2})(?![\w./+-])"),
    Announced(b"cookie", rf"cookie{_QUOTES}\s{{0,3}}[:=]\s{{0,3}}{_QUOTES}([\w.~-]{{1,100}}=[^\r\n\"']+)"),
    Announced(b"sessionid", rf"sessionid{_QUOTES}\s?[:=]\s?{_QUOTES}({_WORD}{{8,}})"),
    Announced(b"sessid=", rf"sessid=({_WORD}{{8,}})"),
    # services
    Announced(b"hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/+-]{20,})"),
    Announced(b"discord", r"discord(?:app)?\.com/api/webhooks/[0-9]{1,30}/([\w-]{30,})"),
    Announced(b"discord", r"discord[^\n]{0,120}?(?<![\w-])([MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,})"),
    Announced(b"bot m", r"bot (m[\w-]{22,27}\.[\w-]{6}\.[\w-]{27,})"),
    Announced(b"hc-ping.com/", r"hc-ping\.com/([0-9a-f-]{36}|[\w-]{22}(?=/))"),
    Announced(b"/with/key/", r"/with/key/([\w-]{16,})"),
    Announced(b"glc_ey", r"(glc_ey[\w+/=-]{30,})"),
    Announced(b"sntrys_", r"(sntrys_[\w+/=.-]{30,})"),
    Announced(b"ops_eyj", r"(ops_eyJ[\w+/=-]{40,})"),
    Announced(b"fm2_", r"(?<!\w)(fm2_[\w+/=-]{40,})"),
    Announced(b"absk", r"(?<!\w)(ABSK[A-Za-z0-9+/]{60,}={0,2})"),
    Announced(b"1//0", r"(?<![\w/.-])(1//0[\w-]{40,})"),
    Announced(b"pdus+_", r"pdus\+_([\w-]{30,})"),
    Announced(b"pro attach", r"pro attach (\w{20,})"),
    Announced(b"webhook.office.com/", r"webhook\.office\.com/webhookb2/([\w@/-]{20,})"),
    Announced(b"wandb", rf"wandb{_NEXT}login{_OPTIONS}" + _HEX40),
    Announced(b"wandb", r"wandb[\w.:()' ]{1,20}?\bkey\b['\":= ]{1,6}" + _HEX40),
    Announced(b"wandb.login(", r"wandb\.login\([^\n)]{0,80}?" + _HEX40),
    Announced(b"hit enter", r"hit enter[^\n]{0,60}?" + _HEX40),
    Announced(b"api.wandb.ai", r"api\.wandb\.ai[^\n]{0,80}?" + _HEX40),
    # an AWS secret beside its id, as in the console's CSV
    Announced(b"akia", r"""akia[A-Z0-9]{16}["'\s,:;]{1,4}([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"""),
    Announced(b"aws configure set", r"aws configure set \w{0,10}_?(?:secret_access_key|session_token)\s{1,3}(\S{16,})"),
    # files and commands
    Announced(b'"auth"', r"""\"auth\"\s{0,3}:\s{0,3}\"([\w+/=-]{12,})"""),
    Announced(b"login ", r"login\s{1,8}\S{1,128}\s{1,16}password\s{1,8}(\S{1,300})"),
    Announced(b"identified by", r"identified by\s{1,3}(?:password\s)?['\"]([^'\"\n]{1,300})"),
    Announced(b'"username"', r'"username"\s?:\s?"[^"\n]{1,64}"\s?,\s?"key"\s?:\s?"([^"\n]{16,})"'),
    Announced(b"pass=", rf"(?<![A-Za-z_])pass=({_MIXED}{_WORD}{{6,}})"),
    Announced(b"--user", rf"--user[ =]['\"]?[\w.@-]{{1,64}}:({_MIXED}{_WORD}{{6,}})"),
    Announced(b" -u ", r" (?-i:-U) ['\"]?[\w.@\\/-]{1,64}%([^\s'\"]{1,300})"),  # smbclient
    Announced(b" -u ", rf" -u ['\"]?[\w.@-]{{1,64}}:({_MIXED}{_WORD}{{6,}})"),
    Announced(b"sshpass", r"sshpass\s{1,3}-p\s{0,3}['\"]?([^\s'\"]{1,300})"),
    Announced(
        b"curl",
        rf"curl{_OPTIONS}{_NEXT}(?:-u|--user|--proxy-user)[ ='\",]{{0,4}}[^\s:'\"]{{1,128}}:([^\s'\"]{{1,300}})",
    ),
    Announced(
        b"mysql", rf"mysql(?:dump|admin|import)?{_OPTIONS}[\s'\"](?-i:-p)([^\s'\"-][^\s'\"]{{2,300}})(?=[\s'\"]|$)"
    ),
    Announced(b"redis-cli", rf"redis-cli{_OPTIONS}{_NEXT}(?-i:-a){_NEXT}{_TO_SPACE}"),
    Announced(b"login", rf"login{_OPTIONS}{_NEXT}(?-i:-p){_NEXT}{_TO_SPACE}"),  # docker, podman, oras, az ...
    Announced(b"twine", rf"twine{_NEXT}upload{_OPTIONS}{_NEXT}(?-i:-p){_NEXT}{_TO_SPACE}"),
    Announced(
        b"ldap", rf"ldap(?:search|modify|add|delete|passwd|whoami|compare){_OPTIONS}{_NEXT}(?-i:-w){_NEXT}{_TO_SPACE}"
    ),
    Announced(b"lftp", rf"lftp{_OPTIONS}{_NEXT}-u{_NEXT}[^\s,'\"]{{1,64}},{_TO_SPACE}"),
    Announced(b"zip", rf"zip{_OPTIONS}{_NEXT}(?-i:-P){_NEXT}{_TO_SPACE}"),
    Announced(b"7z", rf"7z[ar]?{_OPTIONS}{_NEXT}(?-i:-p){_TO_SPACE}"),
    Announced(b"mc alias set", rf"mc alias set(?:\s{{1,3}}\S{{1,200}}){{3}}\s{{1,3}}{_TO_SPACE}"),
    Announced(
        b"echo ",
        r"""echo (?:-n )?['"]?([^\s'"|]{6,300})['"]?\s?\|"""
        r"[^\n|]{1,120}(?:--password-stdin|--with-token|sudo -S|passwd)",
    ),
    Announced(b"auth", r"""auth\s?=\s?\(\s?b?['"]?[\w.@-]{1,64}['"]?,\s?b?['"]([^'"\n]{3,300})['"]"""),
    Announced(b":5432:", r":5432:[^\s:]{1,64}:[^\s:]{1,64}:(\S{3,300})"),  # ~/.pgpass
    Announced(b"conda", r"conda[\w.-]{0,60}/t/([\w-]{8,})/"),
    Announced(b"-pass", r"""-pass(?:in|out)?[ =]['"]?pass:([^\s'"]{1,300})"""),
    Announced(b"private-mac:", r"private-mac: ([0-9a-f]{40,64})"),
    Announced(b"private-lines:", r"private-lines: [0-9]{1,3}((?:\s{1,2}[A-Za-z0-9+/=]{16,64})+)"),
    Announced(b"<password>", r"<password>([^<\n]{1,300})<"),
    Announced(b"<apikey>", r"<apikey>([^<\n]{1,300})<"),
)


def announced(data: bytes, low: bytes) -> Iterator[Span]:
    """Yield where secrets lie that the place announces; `low` is `data` in lower case."""
    for place in ANNOUNCED:
        yield from _found(data, low, place)


def _found(data: bytes, low: bytes, place: Announced) -> Iterator[Span]:
    pattern, done = _compiled(place.pattern), 0
    for at in occurrences(low, place.anchor):
        match = pattern.match(data, at) if at >= done else None
        if match and not match[1].startswith(PLACED):
            yield match.span(1)
        done = match.end(1) if match else done


@cache
def _compiled(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode(), re.IGNORECASE)
