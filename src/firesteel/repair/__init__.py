"""Failures of firesteel found and made small: `check`, `minify`, `bisect`."""
