"""
What keys look like wherever they stand: the issuers' own prefixes, and runs of letters that nobody would write.

Every pattern is linear: repeats are bounded, or end where the text cannot continue them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from gpualert.redact.spans import Span

# A key begins where a word begins; `\nghp_...` inside a JSON string, `%20ghp_...` in a URL and the end of a
# terminal's colour code count as beginnings.
_START = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})"
    r"|(?<=\x1b\[m)|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m)|(?<=;[0-9]m)|(?<=;[0-9]{2}m)|(?<=;[0-9]{3}m))"
)
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_MIXED = r"(?=[a-z_-]*[0-9A-Z][\w-]*)(?=[A-Za-z_-]*[0-9])"

# Source: the issuers' documentation; https://github.com/gitleaks/gitleaks collects pointers to most of it.
# Each lies within one run of letters, digits, `_`, `-`, `.` and `~` that is at least _SHORTEST long.
_SHORTEST = 20
_SHAPES = (
    ("AWS", rf"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}|amzn\.mws\.{_UUID}"),
    ("Google", r"AIza[\w-]{35}|ya29\.[\w.-]{20,}|GOCSPX-[\w-]{28}"),
    ("Alibaba, Tencent, Yandex", r"LTAI[A-Za-z0-9]{20}|AKID[A-Za-z0-9]{32}|AQVN[\w-]{35,38}"),
    ("Azure", r"[\w~.-]{3}[0-9]Q~[\w~.-]{31,34}|[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{20,30}"),
    ("Hugging Face", r"hf_(?:oauth_)?[A-Za-z0-9]{20,}|api_org_[A-Za-z0-9]{34}"),
    ("Weights & Biases, Neptune, Kaggle", r"wandb_v1_[\w-]{20,}|eyJhcGlf[\w-]{20,}|KGAT_[0-9a-f]{32}"),
    ("JSON web token", r"eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]+){0,3}"),
    ("GitHub", r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{22,}"),
    ("GitLab", r"gl(?:pat|ptt|dt|rt|rtr|cbt|soat|ft|ffct|imt|agent|oas|wt)-[\w.-]{16,}|GR1348941[\w-]{20}"),
    ("Bitbucket, Atlassian", r"ATBB[A-Za-z0-9]{24,}|AT(?:ATT|STT|CTT)3[\w-]{20,}"),
    ("Slack, Discord", r"xox[abdeoprsc](?:\.xox[a-z])?-[\w.-]{10,}|xapp-[0-9]-[\w-]{20,}"),
    ("Discord", r"(?=[A-Z][A-Za-z]{0,22}[0-9])[MNO][A-Za-z0-9]{23,25}\.[\w-]{6}\.[\w-]{27,40}"),
    ("OpenAI, Anthropic and alike", r"sk-(?!ssh-|ecdsa-)(?=[\w-]{0,60}[0-9A-Z])[\w-]{16,}|csk-[a-z0-9]{40,}"),
    ("Groq, xAI, Perplexity, NVIDIA", r"gsk_[A-Za-z0-9]{30,}|xai-[A-Za-z0-9]{40,}|pplx-\w{40,}|nvapi-[\w-]{30,}"),
    ("Replicate, RunPod, Lambda", r"r8_[A-Za-z0-9]{30,}|rpa_[A-Za-z0-9]{30,}|secret_\w{3,40}_[0-9a-f]{32}\.\w{32}"),
    (
        "LangSmith, Fireworks, Together",
        r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}|fw_[A-Za-z0-9]{22,}|tgp_v1_[\w-]{40,}",
    ),
    ("Pinecone, Tavily, Jina", r"pcsk_\w{40,}|tvly-(?:dev-|prod-)?[A-Za-z0-9-]{28,}|jina_[0-9a-f]{32}[\w-]{28}"),
    ("Voyage, Modal, Anyscale", rf"pa-{_MIXED}[\w-]{{43}}(?![\w-])|a[ks]-{_MIXED}[A-Za-z0-9]{{22}}(?![\w-])"),
    ("Anyscale, ElevenLabs, Prefect", r"(?:esecret|aseat0)_\w{30,}|sk_[0-9a-f]{48}|pn[ub]_[A-Za-z0-9]{36}"),
    ("Stripe", r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9]{20,}"),
    (
        "Square, Plaid, EasyPost",
        rf"EAAA[\w-]{{60}}|sq0[a-z]{{3}}-[\w-]{{22,43}}|access-[a-z]{{7,11}}-{_UUID}|EZ[AT]K\w{{54}}",
    ),
    (
        "SendGrid, Mailgun, Mailchimp",
        r"SG\.[\w-]{16,32}\.[\w-]{16,64}|key-[0-9a-f]{32}|[0-9a-f]{32}-us[0-9]{1,2}(?!\w)",
    ),
    ("Brevo, Resend, Twilio", r"x(?:key|smtp)sib-[0-9a-f]{64}-\w{16}|re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}|SK[0-9a-f]{32}"),
    ("npm, PyPI, RubyGems", r"npm_[A-Za-z0-9]{36}|pypi-AgE[\w-]{40,}|rubygems_[0-9a-f]{48}"),
    ("crates.io, NuGet", r"cio[A-Za-z0-9]{32}(?!\w)|oy2[a-z0-9]{43}(?!\w)"),
    ("Docker, DigitalOcean", r"dckr_(?:pat|oat)_[\w-]{20,}|do[opr]_v1_[0-9a-f]{64}"),
    ("Cloudflare", r"cf(?:k|ut|at)_[A-Za-z0-9]{40,}|v1\.0-[0-9a-f]{24}-[0-9a-f]{146}"),
    ("Artifactory, Sourcegraph", r"AKCp[A-Za-z0-9]{50,}|cmVmd[A-Za-z0-9]{50,}|sgp_(?:\w{5,16}_)?[0-9a-f]{40}"),
    ("1Password, age", r"A3-[A-Z0-9]{6}-[A-Z0-9]{6}-?(?:[A-Z0-9]{5}-){3}[A-Z0-9]{5}|AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    ("Databricks, Snyk", r"dapi[0-9a-f]{32}(?:-[0-9])?|snyk_[us]at\.[\w.-]{40,}"),
    ("Vault", r"hv[sbr]\.[\w-]{24,}|s\.(?=[A-Za-z]*[0-9])(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{24}(?!\w)"),
    ("Terraform, Fernet", r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}|gAAAAA[\w-]{60,}"),
    ("Doppler, Infracost", r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{1,35}\.)?[A-Za-z0-9]{40,44}|ico-[A-Za-z0-9]{32}"),
    ("Pulumi, Buildkite", r"pul-[0-9a-f]{40}|bk(?:ua|aa|aj|ct|pt)_[0-9a-f]{40,}"),
    ("CircleCI, Sonar", r"CCI(?:PAT|PRJ)_[A-Za-z0-9]{22}_[0-9a-f]{40}|sq[apu]_[0-9a-f]{40}"),
    ("Supabase, PlanetScale", r"sbp_[0-9a-f]{40}|sb_secret_[\w-]{20,}|pscale_(?:tkn|oauth|pw)_[\w.-]{32,}"),
    (
        "Netlify, Vercel, Render",
        r"nf[pcobu]_[A-Za-z0-9]{36,}|vercel_blob_rw_\w{30,}|vc[pikar]_\w{24,}|rnd_[A-Za-z0-9]{28,}",
    ),
    ("Heroku, Scaleway", r"HRKU-[\w-]{36,}|SCW(?=[A-Z]*[0-9])[A-Z0-9]{17}(?!\w)"),
    ("Grafana, Sentry", r"glsa_\w{30,}|eyJrIjoi[\w-]{40,}|sntry[usa]_[\w.-]{30,}"),
    ("Datadog, Dynatrace", r"ddp?at_\w{30,}|dt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("New Relic", r"NR(?:AK|II|IQ|JS|RA)-[\w-]{19,}|[0-9a-fA-F]{32,40}NRAL"),
    ("Postman, Octopus", r"PMAK-[\w-]{30,}|API-(?=[A-Z]*[0-9])[A-Z0-9]{26}(?!\w)"),
    (
        "Shopify, Linear, HubSpot",
        rf"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{{32}}|lin_(?:api|oauth)_\w{{30,}}|pat-[a-z]{{2}}[0-9]-{_UUID}",
    ),
    (
        "Notion, Airtable, Typeform",
        r"ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}|pat\w{14}\.[0-9a-f]{64}|tfp_[\w-]{40,}",
    ),
    ("Figma, Contentful, Adobe", r"figd_[\w-]{30,}|CFPAT-[\w-]{43}|p8e-[\w-]{32}"),
    ("Dropbox, Facebook", r"sl\.(?:u\.)?[\w-]{60,}|EAA[A-Za-z0-9]{80,}"),
    ("ReadMe, ClickHouse, MaxMind", r"rdme_[a-z0-9]{60,}|4b1d[A-Za-z0-9]{38}(?!\w)|\w{6}_[A-Za-z0-9]{29}_mmk"),
    ("MongoDB, Harness", r"mdb_sa_sk_[\w-]{30,}|[ps]at\.[\w-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}"),
    ("Tailscale, OpenShift", r"tskey-[a-z]+-[\w-]{16,}|sha256~[\w-]{43}"),
)
# `<id>:<secret>` of Telegram and Asana, the id outside the run of letters that is looked at.
# Source: https://core.telegram.org/bots/api, https://developers.asana.com/docs/personal-access-token
_KEY = (
    _START
    + "(?:"
    + "|".join(pattern for _, pattern in _SHAPES)
    + r")|(?<=[0-9]{5}:)A[\w-]{34,}|(?<=[0-9]{16}:)[0-9a-f]{32}(?!\w)"
)

_BLOB_BYTES = 600  # a longer run is data, such as a picture in base64
_DRAWN_BYTES = 24  # shorter runs that look drawn are mostly ids
_NO_KEYS = (b"_Z", b"_R", b"AAAA")  # mangled names of C++ and Rust; public keys of SSH


@cache
def _patterns() -> tuple[re.Pattern[bytes], re.Pattern[bytes], re.Pattern[bytes], re.Pattern[bytes]]:
    run = re.compile(rb"[A-Za-z0-9_.~\-]{%d,}" % _SHORTEST)
    wide = re.compile(rb"[A-Za-z0-9_+/-]{%d,}" % _DRAWN_BYTES)
    return run, re.compile(_KEY.encode()), wide, re.compile(rb"[A-Za-z0-9]{%d,}" % _DRAWN_BYTES)


def keys(data: bytes) -> Iterator[Span]:
    """Yield where keys of known issuers stand."""
    run, key, _, _ = _patterns()
    for candidate in run.finditer(data):
        for match in key.finditer(data, *candidate.span()):
            yield match.span()


def drawn_runs(data: bytes) -> Iterator[Span]:
    """Yield where letters and digits stand as only a random generator puts them: keys of issuers nobody listed."""
    _, _, wide, plain = _patterns()
    for around in wide.finditer(data):
        start, end = around.span()
        if end - start <= _BLOB_BYTES and not data.startswith(_NO_KEYS, start):
            for run in plain.finditer(data, start, end):
                if is_drawn(run.group()):
                    yield _widened(data, run.span(), around.span())


_CHANGES = re.compile(rb"[a-z](?=[A-Z0-9])|[A-Z](?=[a-z0-9])|[0-9](?=[A-Za-z])")


def is_drawn(run: bytes) -> bool:
    """
    Say whether letters and digits are mixed as by chance.

    Drawn from 62 characters, two neighbours differ in kind (small, capital, digit) 62 times in 100, with a deviation
    of about 10 in a run of 24; in names that people write, `ConvNextV2ForImageClassification`, 20 to 35 times.
    """
    if run.islower() or run.isupper():  # such as hexadecimal digits
        return False
    kinds = (rb"[a-z]", rb"[A-Z]", rb"[0-9]")
    if min(len(re.findall(kind, run)) for kind in kinds) < 2:
        return False
    return len(_CHANGES.findall(run)) >= 0.42 * (len(run) - 1)


def _widened(data: bytes, run: Span, limits: Span) -> Span:
    """Return a run with what `_`, `-` and `+` join to it."""
    (start, end), (first, last) = run, limits
    return (
        max(first, data.rfind(b"/", first, start) + 1),
        slash if (slash := data.find(b"/", end, last)) >= 0 else last,
    )
