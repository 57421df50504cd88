"""The hash chain of the audit log: sealed in the background, verified on demand and nightly (docs/receipts.md)."""
