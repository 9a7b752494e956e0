"""The layout of a store: its tables, and how a file of an older layout is brought up to date."""

VERSION = 5  # of the file's layout
FIRST = {"checksums": 3, "measurements": 5}  # the first layout with each
RUNNING = ".running"  # how the folder of checkpoints beside a store ends
FIXES = "mended"  # what the table of fix reports was called first; its rows' checksums cover the name

LAYOUT = """
CREATE TABLE data (fingerprint TEXT PRIMARY KEY, name TEXT, classes TEXT, counts TEXT);
CREATE TABLE results (
    key TEXT PRIMARY KEY, engine INTEGER, data TEXT, method TEXT, lr REAL, seed INTEGER, error REAL, document TEXT
);
CREATE TABLE estimates (
    key TEXT PRIMARY KEY, engine INTEGER, data TEXT, estimator TEXT, members INTEGER,
    labels_and_probabilities BLOB, results TEXT
);
"""  # since layout 3 probabilities are files, and the blob holds labels and the estimator's extra scores
SINCE_2 = f"""
CREATE TABLE networks (key TEXT PRIMARY KEY, result TEXT, state BLOB);
CREATE TABLE {FIXES} (key TEXT PRIMARY KEY, engine INTEGER, data TEXT, document TEXT);
"""
SEALED = {  # what the checksum of a row covers
    "data": ("fingerprint", "name", "classes", "counts"),
    "results": ("key", "engine", "data", "document"),
    "estimates": ("key", "engine", "data", "estimator", "labels_and_probabilities", "results"),
    "networks": ("key", "result", "state"),
    FIXES: ("key", "engine", "data", "document"),
    "measurements": ("key", "engine", "data", "document"),
}
SINCE_3 = "".join(f"ALTER TABLE {table} ADD COLUMN checksum TEXT;" for table in SEALED if table != "measurements")
# the column was the top-1 error, and is now the mean of the class errors
SINCE_4 = """
UPDATE results SET error = (SELECT avg(value) FROM json_each(document, '$.scores.class_errors'))
WHERE json_valid(document)
;
"""  # a damaged document is found later, by its checksum
SINCE_5 = "CREATE TABLE measurements (key TEXT PRIMARY KEY, engine INTEGER, data TEXT, document TEXT, checksum TEXT);"
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)  # what a document that is none of ours may raise


def upgrades(version: int) -> list[str]:
    """The statements that turn a file of that layout, or an empty one, into the newest."""
    return [part for part in "".join((LAYOUT, SINCE_2, SINCE_3, SINCE_4, SINCE_5)[version:]).split(";") if part.strip()]
