"""How often verdicts are right: labelled logs, what is counted, and what that number of logs can prove."""
