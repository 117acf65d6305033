"""
What secrets look like: the issuers' own prefixes, the places that announce one, and the words that decide.

Every pattern is linear: repeats are bounded, or end where the text cannot continue them, or consume what they saw.
"""

from __future__ import annotations

from dataclasses import dataclass

# A key begins where a word begins; `\nghp_...` inside a JSON string and `%20ghp_...` in a URL count as beginnings.
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"

# Source: the issuers' documentation; https://github.com/gitleaks/gitleaks collects pointers to most of it.
# Each lies within one run of letters, digits, `_`, `-` and `.` that is at least SHORTEST_SHAPE long.
SHORTEST_SHAPE = 20
_SHAPES = (
    ("AWS", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"),
    ("Google", r"AIza[\w-]{35}|ya29\.[\w.-]{20,}|GOCSPX-[\w-]{28}"),
    ("Alibaba, Tencent", r"LTAI[A-Za-z0-9]{20}|AKID[A-Za-z0-9]{32}"),
    ("Azure AD", r"[\w~.-]{3}[0-9]Q~[\w~.-]{31,34}"),
    ("Hugging Face", r"hf_[A-Za-z0-9]{20,}|api_org_[A-Za-z0-9]{34}"),
    ("Weights & Biases", r"wandb_v1_\w{20,}"),
    ("Neptune", r"eyJhcGlf[\w-]{20,}"),
    ("JSON web token", r"eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]+){0,3}"),
    ("GitHub", r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{22,}"),
    ("GitLab", r"gl(?:pat|ptt|dt|rt|cbt|soat|ft|imt|agent|oas)-[\w.-]{16,}"),
    ("Bitbucket, Atlassian", r"ATBB[A-Za-z0-9]{24,}|ATATT3[\w-]{20,}"),
    ("Slack", r"xox[abeoprsc]-[\w.-]{10,}|xapp-[0-9]-[\w-]{20,}"),
    ("OpenAI, Anthropic and alike", r"sk-(?!ssh-|ecdsa-)(?=[\w-]{0,60}[0-9A-Z])[\w-]{16,}"),
    ("Groq, xAI, Perplexity, NVIDIA", r"gsk_[A-Za-z0-9]{30,}|xai-[A-Za-z0-9]{40,}|pplx-\w{40,}|nvapi-[\w-]{30,}"),
    ("Replicate, RunPod", r"r8_[A-Za-z0-9]{30,}|rpa_[A-Z0-9]{30,}"),
    ("Stripe", r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9]{20,}"),
    ("SendGrid, Mailgun", r"SG\.[\w-]{16,32}\.[\w-]{16,64}|key-[0-9a-f]{32}"),
    ("Twilio", r"SK[0-9a-f]{32}"),
    ("npm, PyPI, RubyGems", r"npm_[A-Za-z0-9]{36}|pypi-AgE[\w-]{40,}|rubygems_[0-9a-f]{48}"),
    ("Docker, DigitalOcean", r"dckr_(?:pat|oat)_[\w-]{20,}|do[opr]_v1_[0-9a-f]{64}"),
    ("Artifactory, 1Password", r"AKCp[A-Za-z0-9]{50,}|cmVmd[A-Za-z0-9]{50,}|ops_eyJ[\w-]{40,}"),
    ("Databricks", r"dapi[0-9a-f]{32}(?:-[0-9])?"),
    ("Vault, Fernet", r"hv[sbr]\.[\w-]{24,}|gAAAAA[\w-]{60,}"),
    ("Grafana, Sentry", r"glsa_\w{30,}|glc_[\w-]{30,}|sntry[su]_[\w.-]{30,}"),
    ("Postman, New Relic", r"PMAK-[\w-]{30,}|NRAK-[A-Z0-9]{20,}"),
    ("Shopify, Linear, Notion", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|lin_api_[A-Za-z0-9]{30,}|ntn_[A-Za-z0-9]{40,}"),
    ("Tailscale, age", r"tskey-[a-z]+-[\w-]{16,}|AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
)
SHAPES = _START + "(?:" + "|".join(pattern for _, pattern in _SHAPES) + ")"
# `<id>:<secret>`, the id outside the run of letters that is looked at.  Source: core.telegram.org/bots/api
SHAPES += r"|(?<=[0-9]{5}:)A[\w-]{34,}"


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
_HEX40 = r"([0-9a-f]{40})(?![0-9a-f])"

ANNOUNCED = (
    # https://user:password@host: the last @ before the path ends the password
    Announced(b"://", r"""://[^\s/:@"'<>]{0,128}:([^\s/"'<>]{1,300})@"""),
    Announced(b"://", r"://([\w.~%-]{20,300})@"),
    Announced(b"://", r"://([\w.~%-]{8,300}):x-oauth-basic@"),
    Announced(b"key=", r"(?<=[?&])key=([\w-]{16,})"),
    Announced(b"auth=", r"(?<=[?&])auth=([\w.~%-]{8,})"),
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
    Announced(b"webhook.office.com/", r"webhook\.office\.com/webhookb2/([\w@/-]{20,})"),
    Announced(b"wandb login", r"wandb login\s(?:--?[\w=-]{1,40}\s{1,3}){0,4}" + _HEX40),
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
    Announced(b" -u ", rf" -u ['\"]?[\w.@-]{{1,64}}:({_MIXED}{_WORD}{{6,}})"),
    Announced(b"sshpass", r"sshpass\s{1,3}-p\s{0,3}['\"]?([^\s'\"]{1,300})"),
    Announced(b"curl", rf"curl{_OPTIONS}\s(?:-u|--user|--proxy-user)[ =]?['\"]?[^\s:'\"]{{1,128}}:([^\s'\"]{{1,300}})"),
    Announced(b"mysql", rf"mysql(?:dump|admin|import)?{_OPTIONS}\s(?-i:-p)([^\s'\"-][^\s'\"]{{2,300}})(?=\s|$)"),
    Announced(b"redis-cli", rf"redis-cli{_OPTIONS}\s(?-i:-a)\s{{1,3}}['\"]?([^\s'\"]{{3,300}})"),
    Announced(b"docker login", rf"docker login{_OPTIONS}\s-p\s{{1,3}}['\"]?([^\s'\"]{{3,300}})"),
    Announced(b"pass:", r"(?<=-passin )pass:(\S{1,300})"),
    Announced(b"private-lines:", r"private-lines: [0-9]{1,3}((?:\s{1,2}[A-Za-z0-9+/=]{16,64})+)"),
    Announced(b"<password>", r"<password>([^<\n]{1,300})<"),
    Announced(b"<apikey>", r"<apikey>([^<\n]{1,300})<"),
)

# Names that may hold a secret contain one of these.
NAME_ANCHORS = (
    b"passw", b"passphrase", b"passcode", b"pwd", b"_pass", b"secret", b"token", b"credential", b"creds", b"_auth",
    b"-auth", b"_pat", b"_key", b"-key", b"api key", b"apikey", b"accesskey", b"accountkey", b"privatekey", b"authkey",
    b"sharedkey",
)  # fmt: skip


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PASSWORD_WORDS = ("password", "passwd", "passphrase", "passcode", "passwort", "pwd")
SECRET_WORDS = _words(
    "secret apikey accesskey secretkey authkey privatekey accountkey sharedkey sharedaccesskey authtoken accesstoken"
    " apitoken sessiontoken"
)
# `<word>_key`, `<word> key`
KEY_OWNERS = _words(
    "api secret access private account encryption encrypt crypt signing master session storage auth shared app deploy"
    " hmac jwt ssh gpg consumer client subscription service openai anthropic azure aws gcp google gemini mistral cohere"
    " groq together replicate wandb comet neptune clearml hf kaggle nvidia ngc runpod lambda modal sentry datadog dd"
    " newrelic stripe twilio sendgrid mailgun admin license fernet"
)
# `<word>_pass`
PASS_OWNERS = _words(
    "db database user smtp mysql pg postgres mail email ftp sftp redis mongo mongodb root admin ldap rabbitmq login"
    " http https ssh vpn proxy es elastic imap sudo ssl key"
)
# `<word>_pat`, a personal access token
PAT_OWNERS = _words("github gh gitlab gl azure ado devops ghcr cr bitbucket databricks")
# `<word>_token` that opens a door ...
TOKEN_OWNERS = _words(
    "auth access api refresh bearer hf hub hugging face huggingface github gh gitlab gl slack bot session csrf xsrf"
    " secret wandb security push npm pypi private personal id identity oauth oauth2 jwt service account user admin"
    " discord telegram replicate kaggle neptune comet clearml deploy registry docker vault consul sas aws azure gcp"
    " google openai anthropic motherduck dagshub mlflow databricks zenodo jupyter notebook login read write job ci"
    " webhook device sentry snyk sonar codecov cloudflare do digitalocean heroku stripe runpod k8s kube trigger"
)
# ... and the token of a language model.
TOKEN_ORDINARY = _words(
    "pad eos bos unk sep cls mask num max min per total special image next new first last start stop end target input"
    " output prompt audio video vocab decoder encoder forced sentinel box draft bad suppress media avg mean count"
    " current prev previous context text word char sub eot eom eod sot im fim prefix suffix middle separator additional"
    " generated expected unexpected invalid unknown padding ignore blank boundary content tool think thinking reasoning"
    " vision speech time timestamp language task placeholder begin beginning role header assistant system chat single"
    " multi top logit logprob loss label pred predicted gold class position pos visual frame query learnable register"
    " memory latent patch each every cost latency throughput speed rate cached cache completion byte bytes sync sched"
    " ttft itl tpot kv"
)
# What may follow the word that names the secret.
NAME_ENDINGS = _words("prod production dev staging test old new value val b64 base64 hash pem data string str")

# Values that are no secret whatever the name says.
BORING = (
    rb"none|null|nil|true|false|yes|no|on|off|undefined|required|optional|empty|missing|invalid|expired|unset|set|str"
    rb"|string|bytes|int|float|bool|object|not|is|was|has|must|the|and|or|for|from|with|to|your|this|that|arguments?|flag"
    rb"|options?|parameters?|instead|when|value|auto|default|token|tokens|password|secret|key|env|environ|stdin|prompt|file"
    rb"|failed|error|ok|okay|found|changed|incorrect|wrong|denied|authentication|provided|given|present|hidden"
    rb"|masked|redacted|removed|filtered|\[redacted\]?"
)
