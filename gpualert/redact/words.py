"""The words that decide: names that may hold a secret, and values that are none whatever the name says."""

from __future__ import annotations

# Names that may hold a secret contain one of these.
NAME_ANCHORS = (
    b"passw", b"passphrase", b"passcode", b"pwd", b"_pass", b"-pass", b"secret", b"token", b"credential", b"creds",
    b"_auth", b"-auth", b"_pat", b"_key", b"-key", b"api key", b"apikey", b"accesskey", b"accountkey", b"privatekey",
    b"authkey", b"sharedkey",
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
