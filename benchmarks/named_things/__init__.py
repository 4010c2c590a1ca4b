"""One small program for each thing that people use inside of compiled functions: is it right, and one graph?"""
