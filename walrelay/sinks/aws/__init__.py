"""The sinks for Amazon Web Services, and what they share: client, credentials, errors, requests of many entries."""
