# SPDX-License-Identifier: MIT
"""A refused call, a failed work request, a drop is explained in one sentence: call or event,
object, numbers, and what to do."""
import re

CALL = re.compile(r"\b(?:softhca_)?(refuse|refuse_work|reason)\(")
PLACE = {"reason": 0, "refuse": 1, "refuse_work": 2}  # of its argument
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
REMEDY = re.compile(r"; .| must be |\bneeds? |\?|%s$")


def remedies(sources):
    """Each sentence of refuse(), refuse_work() and reason() in src/ that says what is wrong and
    not what can be done: behind a semicolon, as a question, as what must be; or in another
    sentence that it takes in (%s)."""
    for source in sources:
        if not source.path.as_posix().startswith("src/"):
            continue
        for match in CALL.finditer(source.text):
            sentence = "".join(LITERAL.findall(_argument(source.text, match.end(),
                                                         PLACE[match.group(1)])))
            if sentence and not REMEDY.search(sentence):
                number = source.text.count("\n", 0, match.start()) + 1
                if not source.waived_here("sentences", number):
                    yield (f'{source.path}:{number}: "{sentence}": say what to do, or why '
                           "nothing can be done: gate: sentences: REASON")


def _argument(text, at, index):
    """That argument of the call whose arguments begin at @at; "" if there is none."""
    depth, start, commas = 0, at, 0
    for lexeme in re.compile(r'"(?:\\.|[^"\\\n])*"|[(){}\[\],]').finditer(text, at):
        word = lexeme.group()
        if word in "([{":
            depth += 1
        elif word in ")]}" and depth:
            depth -= 1
        elif word in ",)" and not depth:
            if commas == index:
                return text[start:lexeme.start()]
            if word == ")":
                return ""
            commas, start = commas + 1, lexeme.end()
    return ""
