import ChildProcesses
import Foundation
import TestSupport
import Testing

/// `zonecast record` and `zonecast zone` against a running relay.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct RecordsCommandTests {
    private let folder = ScratchFolder()
    private let relay: RelayProcess

    init() throws { relay = try RelayProcess(folder: folder.path) }

    private func run(_ words: String..., zone: String? = "Notes", input: String = "", as user: String? = "alice") throws
        -> Command
    {
        try run(words, zone: zone, input: input, as: user)
    }

    private func run(_ words: [String], zone: String? = "Notes", input: String = "", as user: String? = "alice") throws
        -> Command
    {
        var arguments = words + ["--container", "iCloud.org.example.cli", "--url", "http://127.0.0.1:\(relay.port)"]
        if let zone { arguments += ["--zone", zone] }
        let environment = user.map { ["ZONECAST_WEB_TOKEN": "dev-\($0)"] } ?? [:]
        return try Command.run(arguments, input: input, environment: environment)
    }

    @Test func recordsAreWrittenFoundAndDeleted() throws {
        #expect(try run("zone", "create", "Notes", zone: nil).output == "created  Notes\n")
        #expect(try run("zone", "create", "More", "--quiet", zone: nil).output.isEmpty)
        #expect(try run("zone", "delete", "More", "--quiet", zone: nil).output.isEmpty)
        #expect(try run("zone", "list", zone: nil).output.contains("Notes"))
        let milk = try run("record", "create", "Note", "title=Buy milk", "count:=2", "--name", "milk")
        #expect(milk.status == 0 && milk.output.hasPrefix("saved    milk  tag "), "\(milk.errors)")
        #expect(
            try run("record", "create", "Note", "title=Other", "--name", "milk").status == 5,
            "the record already exists"
        )
        #expect(try run("record", "create", "Note", "title=Call Bob", "count:=5", "--name", "bob").status == 0)

        let found = try run("record", "query", "Note", "--filter", "count > 3", "--json")
        #expect(found.output.contains(#""recordName":"bob""#) && !found.output.contains("milk"))
        let sorted = try run("record", "query", "Note", "--sort=-count", "--filter", "title BEGINS_WITH B").output
        #expect(sorted.contains("title=Buy milk") && !sorted.contains("Bob"))
        let several = try run("record", "query", "Note", "--filter", #"title IN ["Buy milk","nothing"]"#)
        #expect(several.status == 0 && several.output.contains("title=Buy milk"), "\(several.errors)")

        #expect(try run("record", "edit", "milk", "title=Buy oats", "count=").status == 0)
        let shown = try run("record", "show", "milk")
        #expect(shown.output.contains("title=Buy oats") && !shown.output.contains("count="))
        #expect(try run("record", "edit", "milk", "title=x", "--tag", "0").status == 5)
        let missing = try run("record", "edit", "absent", "title=x")
        #expect(missing.status == 1 && missing.errors.contains("There is no record absent in Notes."))
        #expect(try run("record", "edit", "made", "title=x", "--type", "Note").status == 0)
        #expect(try run("record", "delete", "made").status == 0)
        let absent = try run("record", "show", "absent")
        #expect(absent.status == 1 && absent.output.isEmpty)
        let list = try run("record", "query", "Note", "--filter", "title IN a,b")
        #expect(list.status == 2 && list.errors.contains("takes a list in JSON"), "\(list.errors)")
        let comparator = try run("record", "query", "Note", "--filter", "title LIKE a")
        #expect(comparator.status == 2 && comparator.errors.contains("BEGINS_WITH"), "\(comparator.errors)")

        #expect(try run("record", "delete", "--type", "Note", "--dry-run").output == "2 records would be deleted\n")
        #expect(try run("record", "delete", "milk").output == "deleted  milk\n")
        let changes = try run("record", "changes")
        #expect(changes.output.contains("bob") && changes.output.contains("token  "))
    }

    /// The type of a new field can be given in our notation and in cktool's.
    @Test func theTypeOfANewFieldCanBeGiven() throws {
        #expect(try run("zone", "create", "Notes", zone: nil).status == 0)
        let time = "1795809890479"
        let made = try run(
            "record",
            "create",
            "Note",
            "at:TIMESTAMP=\(time)",
            "share:DOUBLE=1",
            "sizes:DOUBLE_LIST=[1]",
            "n:=1",
            "--json"
        )
        let json = #"{"at":{"type":"timestampType","value":\#(time)},"share":{"type":"doubleType","value":1},"#
        let lists = #""sizes":{"type":"doubleListType","value":[1]},"n":{"type":"int64Type","value":1}}"#
        let verb = ["create-record", "--database", "private", "--record-type", "Other", "--fields-json"]
        func tool(_ fields: String) throws -> Command {
            let place = ["--container", "iCloud.org.example.cli", "--url", "http://127.0.0.1:\(relay.port)"]
            return try Command.run(verb + [fields] + place, environment: ["ZONECAST_WEB_TOKEN": "dev-alice"])
        }
        for output in [made.output, try tool(json + lists).output] {
            for field in [
                #""at":{"value":\#(time),"type":"TIMESTAMP"}"#, #""share":{"value":1.0,"type":"DOUBLE"}"#,
                #""sizes":{"value":[1.0],"type":"DOUBLE_LIST"}"#, #""n":{"value":1,"type":"INT64"}"#,
            ] { #expect(output.contains(field), "\(output) \(made.errors)") }
        }
        let wrong = try tool(#"{"at":{"type":"dateType","value":1}}"#)
        #expect(wrong.status == 2 && wrong.errors.contains("dateType is not a type. Use stringType, int64Type"))
        #expect(try run("record", "create", "Note", "at:DATE=1").status == 2)
    }

    @Test("a filter's value is read with the type of its field")
    func filtersOnTexts() throws {
        #expect(try run("zone", "create", "Notes", zone: nil).status == 0)
        let texts = ["1984", "-1.50", "1e3", "007", "true", "null", "[1,2]", #"{"a":1}"#, "12345678901234567890"]
        for (place, text) in texts.enumerated() {
            let made = try run(
                "record",
                "create",
                "Note",
                "title=\(text)",
                "count:=\(place)",
                "done:=1",
                "--name",
                "n\(place)"
            )
            #expect(made.status == 0, "\(made.errors)")
        }
        func names(_ filters: String...) throws -> [String] {
            let found = try run(["record", "query", "Note", "--json"] + filters.flatMap { ["--filter", $0] })
            #expect(found.status == 0, "\(filters): \(found.errors)")
            return texts.indices.map { "n\($0)" }.filter { found.output.contains("\"recordName\":\"\($0)\"") }
        }
        for (place, text) in texts.enumerated() {
            #expect(try names("title = \(text)") == ["n\(place)"], "\(text)")
        }
        #expect(try names(#"title = "1984""#) == ["n0"])
        #expect(try names("title BEGINS_WITH 19") == ["n0"])
        #expect(try names("title IN [1984, true]") == ["n0", "n4"])
        #expect(try names(#"title IN ["1984", 1e3]"#) == ["n0", "n2"])
        // Values are compared as numbers where the field holds numbers; filters on different types can be combined.
        #expect(try names("count = 3") == ["n3"] && names("count >= 7") == ["n7", "n8"])
        #expect(try names("count IN [1, 2]") == ["n1", "n2"])
        #expect(try names("done = true", "count < 2") == ["n0", "n1"])
        #expect(try names("title = true", "done = true") == ["n4"])
        #expect(try names("title = null", "title != true", "count > 1") == ["n5"])
        // If no reading of the value works, the relay's first error is reported.
        let refused = try run("record", "query", "Note", "--filter", "count = true", "--filter", "nothing = true")
        #expect(refused.status != 0 && refused.errors.contains("nothing"), "\(refused.errors)")
        let deleted = try run("record", "delete", "--type", "Note", "--filter", "title = 1984")
        #expect(deleted.status == 0, "\(deleted.errors)")
        #expect(try names("title = 1984").isEmpty && names("title = 1e3") == ["n2"])
    }

    @Test("an empty list creates a field only if its type is given")
    func emptyLists() throws {
        #expect(try run("zone", "create", "Notes", zone: nil).status == 0)
        let refused = try run("record", "create", "Note", "tags:=[]", "--name", "a")
        #expect(refused.status != 0)
        #expect(
            refused.errors.contains("cannot use an empty list to initialize a new field (field 'tags'"),
            "\(refused.errors)"
        )
        #expect(try run("record", "create", "Note", "tags:INT64_LIST=[]", "--name", "a").status == 0)
        #expect(try run("record", "create", "Note", "tags:=[]", "--name", "b").status == 0)
        #expect(try run("record", "create", "Note", "tags:=[1]", "--name", "c").status == 0)
        // An export contains the types, so an import needs no schema.
        let exported = try run("record", "export").output
        #expect(try run("zone", "create", "Copy", zone: nil).status == 0)
        #expect(try run("record", "import", "-", zone: "Copy", input: exported).status == 0)
    }

    @Test func followPrintsChangesUntilASignal() throws {
        #expect(try run("zone", "create", "Notes", zone: nil).status == 0)
        #expect(try run("record", "create", "Note", "title=old", "--name", "old").status == 0)
        let follow = ChildProcess()
        follow.executableURL = Command.program
        follow.arguments = [
            "record", "changes", "--follow", "--json", "--zone", "Notes", "--container", "iCloud.org.example.cli",
            "--url", "http://127.0.0.1:\(relay.port)",
        ]
        follow.environment = Command.cleanEnvironment(adding: ["ZONECAST_WEB_TOKEN": "dev-alice"])
        let output = Pipe()
        follow.standardOutput = output
        try follow.run()
        var shown = ""
        // Reads until the words appear or the program ends; the suite's time limit bounds the wait.
        func wait(for words: String) {
            while !shown.contains(words) {
                let more = output.fileHandleForReading.availableData
                guard !more.isEmpty else {
                    Issue.record("the command ended with: \(shown)")
                    return
                }
                shown += String(decoding: more, as: UTF8.self)
            }
        }
        wait(for: #""recordName":"old""#)
        for name in ["new", "newer"] {
            #expect(try run("record", "create", "Note", "title=x", "--name", name).status == 0)
            wait(for: #""recordName":"\#(name)""#)
        }
        follow.terminate()
        wait(for: "syncToken")
        follow.waitUntilExit()
        #expect(follow.terminationStatus == 0)
        #expect(shown.components(separatedBy: #""recordName":"old""#).count == 2, "each change is shown once")
        #expect(try run("record", "changes", "--follow", "--database", "public").status == 2)
    }

    /// Terminal escapes in other users' records must not reach the terminal.
    @Test func controlCharactersInRecordsAreReplacedInTheOutput() throws {
        #expect(try run("zone", "create", "Notes", zone: nil).status == 0)
        #expect(try run("record", "create", "Note", "title=a\u{1B}[31mred\tb\u{202E}c", "--name", "n").status == 0)
        for command in [["record", "query", "Note"], ["record", "show", "n"], ["record", "changes"]] {
            let place = ["--container", "iCloud.org.example.cli", "--url", "http://127.0.0.1:\(relay.port)"]
            let shown = try Command.run(
                command + place + ["--zone", "Notes"],
                environment: ["ZONECAST_WEB_TOKEN": "dev-alice"]
            ).output
            #expect(shown.contains("title=a\u{FFFD}[31mred\u{FFFD}b\u{FFFD}c"), "\(shown)")
        }
    }

    @Test func exportedRecordsCanBeImported() throws {
        #expect(try run("zone", "create", "Notes", "Copy", zone: nil).status == 0)
        for number in 0..<3 {
            #expect(try run("record", "create", "Note", "title=n\(number)", "--name", "n\(number)").status == 0)
        }
        let exported = try run("record", "export").output
        #expect(exported.split(separator: "\n").count == 3)
        let imported = try run("record", "import", "-", zone: "Copy", input: exported)
        #expect(imported.output.split(separator: "\n").count == 3, "\(imported.errors)")
        #expect(try run("record", "show", "n2", zone: "Copy").output.contains("title=n2"))
        let marked = try run("record", "import", "-", zone: "Copy", input: "\u{FEFF}" + exported)
        #expect(marked.status == 0, "\(marked.errors)")
        let broken = try run("record", "import", "-", zone: "Copy", input: exported + "{\n")
        #expect(broken.status == 2 && broken.errors.contains("line 4"))
    }

    /// An export lists records by change, so parents and targets of references may come last.
    @Test func anImportAcceptsLargeRecordsInAnyOrder() throws {
        #expect(try run("zone", "create", "Notes", zone: nil).status == 0)
        let text = String(repeating: "x", count: 30_000)
        let folder = #"{"value": {"recordName": "top", "action": "DELETE_SELF"}}"#
        let fields = #"{"folder": \#(folder), "text": {"value": "\#(text)"}}"#
        let rest = #""recordType": "Note", "parent": {"recordName": "n0"}, "fields": \#(fields)"#
        let leaves = (1...201).map { #"{"recordName": "n\#($0)", \#(rest)}"# }
        let tops = [
            #"{"recordName": "n0", "recordType": "Note", "fields": {}}"#,
            #"{"recordName": "top", "recordType": "Folder", "fields": {}}"#,
        ]
        let imported = try run("record", "import", "-", input: (leaves + tops).joined(separator: "\n"))
        #expect(imported.status == 0, "\(imported.errors)")
        #expect(imported.output.split(separator: "\n").count(where: { $0.hasPrefix("saved") }) == 203)
    }

    @Test func anImportLeavesSharesOut() throws {
        #expect(try run("zone", "create", "Notes", "Copy", zone: nil).status == 0)
        #expect(try run("record", "create", "Note", "title=n", "--name", "n").status == 0)
        let shared = try run("share", "create", "Notes", zone: nil)
        #expect(shared.status == 0, "\(shared.errors)")
        let exported = try run("record", "export").output
        #expect(exported.contains("cloudkit.share"))
        let imported = try run("record", "import", "-", zone: "Copy", input: exported)
        #expect(imported.status == 0 && imported.errors.contains("1 share was left out"), "\(imported.errors)")
        #expect(imported.output.hasPrefix("saved    n") && !imported.output.contains("share"))
        let copy = try run("record", "export", zone: "Copy").output
        #expect(copy.contains(#""recordName":"n""#) && !copy.contains("cloudkit.share"))
    }

    @Test func theHelpListsTheDatabases() throws {
        let help = try Command.run(["record", "show", "--help"]).output
        let words = help.split { $0.isWhitespace }.joined(separator: " ")
        #expect(words.contains("(values: public, private, shared; default: private)"), "\(help)")
    }

    @Test func errorsSayWhatToDo() throws {
        let anonymous = try run("record", "show", "x", as: nil)
        #expect(anonymous.status == 4 && anonymous.errors.contains("ZONECAST_WEB_TOKEN"))
        let missing = try run("record", "show", "x", zone: "Nowhere")
        #expect(missing.status == 1 && missing.errors.contains("Zone not found"))
        let away = try Command.run(
            ["zone", "list", "--container", "iCloud.org.example.cli", "--url", "http://127.0.0.1:9"],
            environment: ["ZONECAST_WEB_TOKEN": "dev-alice"]
        )
        #expect(away.status == 3 && away.errors.contains("http://127.0.0.1:9"))
        #expect(try run("record", "create", "Note", "title").status == 2)
    }
}
