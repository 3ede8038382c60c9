import Foundation
import TestSupport
import Testing

/// The Swift code that `zonecast schema codegen` writes compiles against the modules it is for.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct CodegenTests {
    private let folder = ScratchFolder()

    /// Every field type, with names that have a meaning in Swift.
    private static let schema = """
        DEFINE SCHEMA
            RECORD TYPE Note (
                title STRING QUERYABLE, secret ENCRYPTED STRING, count INT64, weight DOUBLE, due TIMESTAMP, thumb BYTES,
                link REFERENCE, place LOCATION, file ASSET, tags LIST<STRING>, counts LIST<INT64>, dates LIST<TIMESTAMP>,
                links LIST<REFERENCE>, places LIST<LOCATION>, files LIST<ASSET>, blobs LIST<BYTES>, "default" STRING,
                "class" INT64, record STRING, id STRING
            );
            RECORD TYPE Date ( at TIMESTAMP );
            RECORD TYPE lowercase ( a STRING );
            RECORD TYPE Users ( roles LIST<INT64>, nickname STRING );
        """

    private func generate(_ arguments: String..., schema: String = schema) throws -> Command {
        try Command.run(["schema", "codegen", "--file", "-"] + arguments, input: schema)
    }

    /// Compiles a generated file with a file that uses it and returns the compiler's output, "" on success.
    private func diagnostics(about text: String, and use: String) throws -> String {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let files = ["made": text, "use": use].map { name, text -> String in
            let path = "\(folder.path)/\(name).swift"
            _ = FileManager.default.createFile(atPath: path, contents: Data(text.utf8))
            return path
        }
        let built = Command.program.deletingLastPathComponent().path
        let scratch = URL(fileURLWithPath: built).deletingLastPathComponent().deletingLastPathComponent().path
        let source = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().path
        let maps = try Self.moduleMaps([built, scratch + "/checkouts", source + "/Sources"])
        let run = try Tool.run(
            "swiftc",
            [
                "-typecheck", "-swift-version", "6", "-warnings-as-errors", "-enable-upcoming-feature",
                "InternalImportsByDefault", "-I", built + "/Modules", "-module-name", "Made",
            ] + maps.flatMap { ["-Xcc", "-fmodule-map-file=\($0)"] } + files.sorted()
        )
        return run.status == 0 ? "" : run.output
    }

    /// Returns the module maps of the C modules that our modules import, each module once.
    private static func moduleMaps(_ roots: [String]) throws -> [String] {
        var known: Set<String> = []
        var found: [String] = []
        for root in roots {
            let run = try Tool.run("find", [root, "-maxdepth", "5", "-name", "module.modulemap"])
            for path in run.output.split(separator: "\n").map(String.init).sorted() {
                let text = try String(contentsOfFile: path, encoding: .utf8)
                let names = text.matches(of: /module\s+(\w+)/).map { String($0.1) }
                guard known.isDisjoint(with: names) else { continue }
                known.formUnion(names)
                found.append(path)
            }
        }
        return found
    }

    @Test(.enabled(if: Tool.isInstalled("swiftc"), "swiftc is not installed"))
    func recordsCompile() throws {
        let made = try generate("--form", "records", "--access", "public")
        #expect(made.status == 0, "\(made.errors)")
        #expect(made.output.hasPrefix("// Generated from standard input by: zonecast schema codegen --form records\n"))
        let use = """
            import ZoneKit

            func use() -> String? {
                let note = Note(id: CKRecord.ID(recordName: "milk"))
                note.title = "Buy milk"
                note.secret = "hush"
                note.tags = ["a"]
                note.`default` = "x"
                note.recordField = "y"
                note.link = CKRecord.Reference(recordID: note.record.recordID, action: .none)
                DateRecord(note.record).at = note.due
                return (note.record["title"] as String?) ?? Users(note.record).nickname ?? Lowercase.recordType
            }
            """
        #expect(try diagnostics(about: made.output, and: use) == "")
    }

    @Test(.enabled(if: Tool.isInstalled("swiftc"), "swiftc is not installed"))
    func mirrorsCompile() throws {
        let made = try generate("--form", "mirror", "--access", "public")
        #expect(made.status == 0, "\(made.errors)")
        #expect(made.output.contains("usesPrefix = false"))
        #expect(made.output.contains("// tags, list of STRING: not supported by mirrors; read it with ZoneKit."))
        let use = """
            import ZoneMirror

            func use() -> MirrorModel {
                var note = Note()
                note.title = "Buy milk"
                note.`class` = 3
                return note.due == nil ? .ofSchema : MirrorModel(Note.self, DateRecord.self)
            }
            """
        #expect(try diagnostics(about: made.output, and: use) == "")

        let prefixed = """
            DEFINE SCHEMA
                RECORD TYPE CD_Note (
                    CD_entityName STRING QUERYABLE, CD_title STRING, CD_body BYTES, CD_body_ckAsset ASSET, CD_at TIMESTAMP
                );
                RECORD TYPE CDMR ( CD_entityNames STRING );
            """
        let core = try generate(
            "--form",
            "mirror",
            schema: prefixed.replacing("RECORD TYPE CDMR", with: "RECORD TYPE CDMR")
        )
        #expect(core.output.contains("struct Note: SyncedRecord {"))
        #expect(!core.output.contains("ckAsset") && !core.output.contains("entityNames"))
        #expect(try diagnostics(about: core.output, and: "let note = Note().at") == "")
    }

    /// Every keyword of Swift, names that map to the same identifier, and names of standard types.
    private static let odd: String = {
        let words = """
            associatedtype class deinit enum extension fileprivate func import init inout internal let open operator private
            precedencegroup protocol public rethrows static struct subscript typealias var break case catch continue default
            defer do else fallthrough for guard if in repeat return throw switch where while Any as await false is nil self
            Self super throws true try Type Protocol actor any async borrowing consuming convenience didSet dynamic each
            final get indirect infix isolated lazy left macro mutating none nonisolated nonmutating optional override package
            postfix prefix right set some unowned weak willSet newValue oldValue
            record recordField recordFieldField recordType CKRecord UUID CodingKeys RecordName id ID idField Int String Date
            Optional title Title hashValue describe encode entity entityName description
            """.split(whereSeparator: \.isWhitespace).map(String.init)
        let types = [
            "String", "string", "Int64", "Double", "Date", "Data", "UUID", "Optional", "Array", "Error", "Task",
            "Result",
            "Never", "Void", "Sendable", "CKRecord", "CKAsset", "CLLocation", "SyncedRecord", "MirrorModel", "Entity",
            "RecordName", "Swift", "Foundation", "ZoneKit", "ZoneMirror", "Self", "self", "Type", "TypeRecord", "type",
            "Protocol", "Any", "note", "Note", "NoteRecord", "nOte", "init", "default", "Encoder", "Codable",
        ]
        let fields = words.enumerated().map { place, word in
            "\"\(word)\" \(["STRING", "INT64", "TIMESTAMP", "BYTES", "ENCRYPTED DOUBLE"][place % 5])"
        }
        let all = types.map { "RECORD TYPE \"\($0)\" ( at TIMESTAMP, thumb BYTES, count INT64, title STRING );" }
        return "DEFINE SCHEMA\nRECORD TYPE Words ( \(fields.joined(separator: ", ")) );\n" + all.joined(separator: "\n")
    }()

    @Test(
        "the code for a schema with unusual names compiles",
        .enabled(if: Tool.isInstalled("swiftc"), "swiftc is not installed"),
        arguments: ["records", "mirror"],
        ["internal", "public"]
    )
    func oddSchemasCompile(form: String, access: String) throws {
        let made = try generate("--form", form, "--access", access, schema: Self.odd)
        #expect(made.status == 0, "\(made.errors)")
        // In the generated module, the names of standard types still mean the standard types.
        let use = """
            func use(_ error: any Error) async -> Result<[Int], Never> {
                let number: Optional<Int64> = await Task { 1 }.value
                return .success(Array(number.map { [Int($0), String($0).count] } ?? []))
            }
            """
        #expect(try diagnostics(about: made.output, and: use) == "")
        for name in ["struct Note ", "struct Note:", "struct NoteRecord ", "struct NoteRecord:"] {
            #expect(made.output.components(separatedBy: name).count <= 2, "\(name)")
        }
        // The output does not depend on the order of the declarations.
        let lines = Self.odd.split(separator: "\n")
        let turned = ([lines[0]] + lines.dropFirst().reversed()).joined(separator: "\n")
        #expect(try generate("--form", form, "--access", access, schema: turned).output == made.output)
    }

    @Test(
        "the code for few types, none, or names with one prefix compiles",
        .enabled(if: Tool.isInstalled("swiftc"), "swiftc is not installed"),
        arguments: [
            "", "RECORD TYPE Note ( id TIMESTAMP, tags LIST<TIMESTAMP> );", "RECORD TYPE Empty ( );",
            "RECORD TYPE CD_note ( CD_title STRING, title STRING ); RECORD TYPE CD_Note ( CD_title STRING );",
            "RECORD TYPE CD_ ( CD_a STRING, CD_ BYTES ); RECORD TYPE CD_1st ( CD_1st BYTES );",
        ]
    )
    func smallSchemasCompile(_ types: String) throws {
        for form in ["records", "mirror"] {
            let made = try generate("--form", form, "--access", "public", schema: "DEFINE SCHEMA\n\(types)\n")
            #expect(made.status == 0, "\(form): \(made.errors)")
            #expect(try diagnostics(about: made.output, and: "") == "", "\(form)")
        }
    }

    @Test func theOutputIsDeterministicAndAnInvalidSchemaIsRefused() throws {
        #expect(try generate().output == generate().output)
        let wrong = try generate(schema: "DEFINE SCHEMA RECORD TYPE A ( a STRIN );")
        #expect(wrong.status == 1 && wrong.errors.contains("standard input:1:"))
        #expect(try Command.run(["schema", "codegen"]).status == 2)
        let made = try Command.run(["container", "create", "iCloud.org.example.notes", "--data", folder.path])
        #expect(made.status == 0)
        let own = ["--container", "iCloud.org.example.notes", "--data", folder.path]
        #expect(try Command.run(["schema", "import", "--file", "-"] + own, input: Self.schema).status == 0)
        struct Answer: Decodable { var source: String, form: String, swift: String }
        let answer = try Command.run(["schema", "codegen", "--module", "CloudKit", "--json"] + own).json(Answer.self)
        #expect(answer.source == "iCloud.org.example.notes, development" && answer.form == "records")
        #expect(answer.swift.contains("\nimport CloudKit\n") && answer.swift.contains("struct Note {"))
    }
}
