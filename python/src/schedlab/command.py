"""Calls of the executable. An option is a keyword: `runs=20` is `--runs 20`, `all_rows=True` is `--all-rows`, and a
list gives the option once for each of its values."""

import json
import os
import shutil
import subprocess

#: Exit code of a check that failed: the result is printed all the same.
CHECK_FAILED = 1


class Failed(Exception):
    """The executable ended with an error: its exit code (`status`), and what it printed (`message`)."""

    def __init__(self, words, status, message):
        super().__init__(message.strip() or f"schedlab ended with exit code {status}")
        self.words = words
        self.status = status
        self.message = message


def executable():
    """The path of schedlab: that of `SCHEDLAB`, else the one in `PATH`."""
    found = os.environ.get("SCHEDLAB") or shutil.which("schedlab")
    if not found:
        raise FileNotFoundError(
            "schedlab is not in PATH: install it with 'cargo install --locked --path crates/schedlab', "
            "or name it by the environment's SCHEDLAB"
        )
    return found


def options(named):
    """The words of keyword arguments."""
    words = []
    for name, value in named.items():
        option = f"--{name.replace('_', '-')}"
        if value is None or value is False:
            continue
        values = value if isinstance(value, (list, tuple)) else [value]
        for one in values:
            words += [option] if one is True else [option, str(one)]
    return words


def call(*words, cwd=None, checked=False, **named):
    """What `schedlab WORDS --OPTIONS` prints. With `checked` a check that failed (`--fail-on`) is an error, too."""
    # Options come before what may stand behind "--".
    words = [str(word) for word in words]
    at = words.index("--") if "--" in words else len(words)
    words = words[:at] + options(named) + words[at:]
    program = executable()
    try:
        done = subprocess.run([program, *words], cwd=cwd, capture_output=True, text=True)
    except OSError as error:
        raise FileNotFoundError(f"{program} can't be started: {error.strerror}; SCHEDLAB or PATH names another") from error
    printed_all_the_same = done.returncode == CHECK_FAILED and done.stdout and not checked
    if done.returncode and not printed_all_the_same:
        raise Failed(words, done.returncode, done.stderr)
    return done.stdout


def ask(*words, **named):
    """What a command prints with `--json`."""
    return json.loads(call(*words, json=True, **named))
