"""Random programs that compare plain Python with compiled Python."""
