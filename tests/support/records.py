"""
Records of random words for tests of the command line, the same in every run; and reading what a run says. A test that has sourced
support/runs.sh imports it in its Python.
"""
import json
import random

random.seed(3)


def words(n):
    """n words of two to five letters."""
    return " ".join("".join(random.choice("abcdefgh") for _ in range(random.randint(2, 5))) for _ in range(n))


def completions(n, longest=12):
    """Records of completion: two words, and two to `longest` more."""
    return [{"prompt": words(2), "completion": words(random.randint(2, longest))} for _ in range(n)]


def pairs(n, longest=4, last=False):
    """Records of preference: an answer with the word "good" of one to `longest` more words, and one with "bad". The word is the first, or the last."""
    def answer(word, most):
        others = words(random.randint(1, most))
        return f"{others} {word}" if last else f" {word} {others}"
    return [{"prompt": words(3) + ":", "chosen": answer("good", longest), "rejected": answer("bad", 4)} for _ in range(n)]


def read(path):
    """The documents of a file with a line of JSON for each."""
    with open(path) as lines:
        return [json.loads(line) for line in lines]


def write(path, records):
    with open(path, "w") as out:
        out.writelines(json.dumps(record) + "\n" for record in records)
