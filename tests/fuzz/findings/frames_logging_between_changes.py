"""A list that a logging handler and the program both add to got the program's items first."""

import logging

import torch


def make():
    seen = []

    class Handler(logging.Handler):
        def emit(self, record):
            seen.append(record.getMessage())

    logger = logging.Logger("between")
    logger.addHandler(Handler())

    def fn(x):
        for number in range(2):
            seen.append(number)
            logger.warning("logged")
        return x + 1

    return fn, [((torch.ones(3),), {})] * 2, lambda index: None, lambda: {"seen": seen}
