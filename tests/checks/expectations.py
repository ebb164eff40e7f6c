"""What a check expects of a script's report: `expect` for each, `expect_lines` of its document, and `end` once all is said."""
import sys

_broken = []


def expect(holds, sentence):
    if not holds:
        _broken.append(sentence)


def expect_lines(document, lines):
    for line in lines:
        expect(line in document, f"the document has no '{line}'")


def end(script):
    """Prints a sentence for each that doesn't hold; exits 1 where there is one."""
    for sentence in _broken:
        print(f"{script}: {sentence}")
    sys.exit(bool(_broken))
