"""Does a run behave as projected, and if not: which term, which ranks, since which step.

files --readers--> Record (steps x ranks x terms) --judge, against a Projection--> verdicts
"""
