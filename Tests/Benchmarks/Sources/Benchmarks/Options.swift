import Sockets

/// The command line.
struct Options {
    static let usage = """
        Measures a release build of `zonecast serve` beside its floors, all on this machine.

            Tests/Benchmarks/run [--quick] [--only ROW]... [--json] [--folder DIR] [--relay FILE] [--list]

        --quick        one or two minutes instead of ten: fewer rounds, smaller ones
        --only ROW     only this row; may be repeated
        --json         one JSON document on standard output
        --folder DIR   where the relay, SQLite and PostgreSQL keep their files; a real disk (/var/tmp)
        --relay FILE   the relay's program (the root package's .build/release/zonecast)
        --list         the rows' names
        """

    var isQuick = false
    var only: Set<String> = []
    var isJSON = false
    var folder = "/var/tmp"
    var relay = ".build/release/zonecast"
    var isList = false
    var isHelp = false

    init(_ arguments: [String]) throws(LoadError) {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--quick": isQuick = true
            case "--json": isJSON = true
            case "--list": isList = true
            case "--help", "-h": isHelp = true
            case "--only": only.insert(try Self.value(of: argument, &rest))
            case "--folder": folder = try Self.value(of: argument, &rest)
            case "--relay": relay = try Self.value(of: argument, &rest)
            default: throw .missing("\(argument) is not an option.\n\n\(Self.usage)")
            }
        }
    }

    private static func value(of name: String, _ rest: inout ArraySlice<String>) throws(LoadError) -> String {
        guard let value = rest.popFirst() else { throw .missing("\(name) needs a value.\n\n\(usage)") }
        return value
    }
}
