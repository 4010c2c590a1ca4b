"""Programs written for ``torch.compile`` run unchanged: torch's own names are answered by firesteel.

Nothing is imported here: `program` runs programs that have not imported torch yet.
"""
