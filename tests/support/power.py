"""The states of a folder that a loss of power may leave, from a record of its changes (support/preload/record.c).

Only POSIX's promise counts: the content of a file is safe once the file was synced after it was written; the presence or absence of a name
is safe once its folder was synced afterwards. Every other change may survive or not, each by itself, in any order. Real file systems keep
more, so a program that is correct here is correct on them.

    record = power.Record(path, folder)      # the folder was empty when the record began
    for tree in record.states(seed, draws):  # each once
        tree.moment                          # the last moment at which it may be left: the number of operations done
        tree.least                           # only changes that are safe then survive
        tree.write(where)                    # creates it in that folder
    record.safe_since(lambda op: ...)        # the moment at which the first operation of that kind is safe
"""
import hashlib
import os
import random


class Operation:
    def __init__(self, what, numbers, paths, data):
        self.what, self.numbers, self.paths, self.data = what, numbers, paths, data


def read_operations(path, folder):
    operations = []
    with open(path, "rb") as file:
        while line := file.readline():
            fields = line.rstrip(b"\n").split(b"\t")
            what, *numbers = fields[0].decode().split()
            paths = [os.path.relpath(p.decode(), folder) if p.startswith(b"/") else p.decode() for p in fields[1:]]
            numbers = [int(n) for n in numbers]
            data = file.read(numbers[1]) if what == "write" else b""
            if not any(p.endswith(" (deleted)") for p in paths):
                operations.append(Operation(what, numbers, paths, data))
    return operations


class Change:
    """One change that a loss of power takes or leaves. of: what has to be synced for it: a file or a folder, by its number."""

    def __init__(self, moment, of, apply):
        self.moment, self.of, self.apply, self.synced = moment, of, apply, None


class Nodes:
    """Files and folders by numbers that stay when names change; 0 is the folder itself."""

    def __init__(self):
        self.kind, self.content, self.names = {0: "folder"}, {}, {0: {}}

    def make(self, number, kind, content=b""):
        self.kind[number] = kind
        if kind == "folder":
            self.names[number] = {}
        else:
            self.content[number] = content


def set_bytes(number, at, data):
    def apply(nodes):
        old = nodes.content[number]
        nodes.content[number] = old[:at].ljust(at, b"\0") + data + old[at + len(data):]
    return apply


def set_size(number, size, may_shrink):
    def apply(nodes):
        old = nodes.content[number]
        nodes.content[number] = (old[:size] if may_shrink else old).ljust(size, b"\0")
    return apply


def set_name(folder, name, number):
    return lambda nodes: nodes.names[folder].__setitem__(name, number)


def remove_name(folder, name):
    return lambda nodes: nodes.names[folder].pop(name, None)


class Record:
    def __init__(self, path, folder):
        self.operations = read_operations(path, folder)
        self.changes = []  # in order
        self.made = []     # number, kind, content: nodes exist from the beginning, without names
        now = self.now = Nodes()
        for moment, op in enumerate(self.operations, 1):
            self.follow(moment, op, now)

    # --- what an operation changes ---------------------------------------------------------------------------------------------

    def find(self, path):
        number = 0
        for part in [p for p in path.split("/") if p not in ("", ".")]:
            number = self.now.names[number][part]
        return number

    def place(self, path):
        folder, name = os.path.split(os.path.normpath(path))
        return self.find(folder), name

    def change(self, moment, of, *applies):
        def apply(nodes):
            for one in applies:
                one(nodes)
        self.changes.append(Change(moment, of, apply))
        apply(self.now)

    def make(self, kind, content=b""):
        number = len(self.now.kind)
        self.made.append((number, kind, content))
        self.now.make(number, kind, content)
        return number

    def follow(self, moment, op, now):
        what, paths = op.what, op.paths
        if what == "sync":
            synced = self.find(paths[0])
            for change in self.changes:
                if change.of == synced and change.synced is None:
                    change.synced = moment
            return
        if what in ("write", "size"):
            number = self.find(paths[0])
            set_it = set_bytes(number, op.numbers[0], op.data) if what == "write" else set_size(number, *op.numbers)
            self.change(moment, number, set_it)
            return
        folder, name = self.place(paths[-1])
        if what == "open":
            if name not in now.names[folder]:
                self.change(moment, folder, set_name(folder, name, self.make("file")))
            elif op.numbers[0] and now.kind[now.names[folder][name]] == "file":
                number = now.names[folder][name]
                self.change(moment, number, set_size(number, 0, True))
        elif what == "mkdir":
            self.change(moment, folder, set_name(folder, name, self.make("folder")))
        elif what == "symlink":
            self.change(moment, folder, set_name(folder, name, self.make("link", paths[0].encode())))
        elif what == "link":
            self.change(moment, folder, set_name(folder, name, self.find(paths[0])))
        elif what == "unlink":
            self.change(moment, folder, remove_name(folder, name))
        else:  # one change of both names: every file system renames in one piece
            old_folder, old_name = self.place(paths[0])
            number, other = now.names[old_folder][old_name], now.names[folder].get(name)
            leave = set_name(old_folder, old_name, other) if what == "exchange" else remove_name(old_folder, old_name)
            self.change(moment, folder, leave, set_name(folder, name, number))

    # --- what may be left ------------------------------------------------------------------------------------------------------

    def tree(self, moment, chosen):
        nodes = Nodes()
        for number, kind, content in self.made:
            nodes.make(number, kind, content)
        for change in self.changes:
            if change.moment > moment:
                break
            if (change.synced is not None and change.synced <= moment) or change in chosen:
                change.apply(nodes)
        return Tree(moment, nodes)

    def states(self, seed, draws):
        """At each moment: all of what is not safe, nothing of it, all but one, one alone, and so many draws at random."""
        rng, found = random.Random(seed), {}
        for moment in range(len(self.operations) + 1):
            open_ = [c for c in self.changes if c.moment <= moment and not (c.synced is not None and c.synced <= moment)]
            some = [set(open_)] + [set(open_) - {c} for c in open_] + [{c} for c in open_]
            some += [{c for c in open_ if rng.random() < 0.5} for _ in range(draws if len(open_) > 2 else 0)]
            some += [set()]  # last, so that of equal trees it is the one that is kept
            for chosen in some:
                tree = self.tree(moment, chosen)
                tree.least = not chosen
                found[tree.digest] = tree  # later, more was promised
        return sorted(found.values(), key=lambda tree: tree.moment)

    def safe_since(self, wanted):
        """The moment from which on a loss of power leaves the change that the first operation of this kind made; None: never."""
        for change in self.changes:
            if wanted(self.operations[change.moment - 1]):
                return change.synced
        return None


class Tree:
    def __init__(self, moment, nodes):
        self.moment, self.nodes = moment, nodes
        self.digest = hashlib.sha256(repr(list(self.walk(0, ""))).encode()).digest()

    def walk(self, folder, path):
        for name, number in sorted(self.nodes.names[folder].items()):
            kind, where = self.nodes.kind[number], os.path.join(path, name)
            yield where, kind, self.nodes.content.get(number)
            if kind == "folder":
                yield from self.walk(number, where)

    def write(self, where):
        os.makedirs(where)
        for path, kind, content in self.walk(0, ""):
            path = os.path.join(where, path)
            if kind == "folder":
                os.mkdir(path)
            elif kind == "link":
                os.symlink(content.decode(), path)
            else:
                with open(path, "wb") as file:
                    file.write(content)
