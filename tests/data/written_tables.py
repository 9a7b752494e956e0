"""Tables as text."""

import csv
import io


def written(rows, delimiter=",", end="\r\n", quoting=csv.QUOTE_MINIMAL):
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)
    return stream.getvalue()


HOLES = "age,city,x,y\n1,Oslo,1,0\n,Rome,2,1\n7,?,3,1\n9,Oslo,4,1\n"
