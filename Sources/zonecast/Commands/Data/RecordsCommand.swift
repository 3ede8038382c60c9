import ArgumentParser
import Records
import Wire

/// `zonecast records`: reads and writes records of a running relay.
struct RecordsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "records",
        abstract: "Query, read and write records of a running relay.",
        subcommands: [
            Query.self, Get.self, Create.self, Update.self, Delete.self, DeleteMany.self, Changes.self, Export.self,
            Import.self,
        ]
    )

    struct Get: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show records by their names.")

        @Argument(help: "The records' names.")
        var names: [String]
        @OptionGroup var zone: ZoneOptions
        @OptionGroup var remote: RemoteOptions

        func run() async throws {
            let records = try await RecordsCommand.lookup(names, in: zone, remote)
            try RecordTable.say(records.filter { $0["serverErrorCode"] == nil }, json: remote.json, empty: "")
            guard let missing = records.first(where: { $0["serverErrorCode"] != nil }) else { return }
            let reason = missing.text("reason") ?? ""
            throw CommandFailure(.failed, "\(missing.text("recordName") ?? ""): \(reason)")
        }
    }

    private static func lookup(
        _ names: [String],
        in zone: ZoneOptions,
        _ remote: RemoteOptions
    ) async throws -> [JSONValue] {
        var body = JSONWriter()
        body.object { body in
            zone.write(to: &body)
            body.key("records")
            body.array(names) { list, name in list.object { $0.member("recordName", name) } }
        }
        return try await remote.call("records/lookup", body).list("records")
    }

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Create a record.")

        @Argument(help: ArgumentHelp("The record type.", valueName: "type"))
        var type: String
        @Argument(help: "Fields: name=text, name:=JSON, or name:TYPE=JSON.")
        var fields: [FieldArgument] = []
        @Option(help: "The record's name. (default: chosen by the relay)")
        var name: String?
        @OptionGroup var zone: ZoneOptions
        @OptionGroup var remote: RemoteOptions

        func run() async throws {
            let write = RecordWrite("create", name: name, type: type, fields: fields)
            try await RecordWrite.perform([write], in: zone, remote)
        }
    }

    struct Update: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Edit fields of a record.",
            discussion: "With --tag, only if the record has not changed since; otherwise unconditionally."
        )

        @Argument(help: "The record's name.")
        var name: String
        @Argument(help: "Fields: name=text, name:=JSON, or name:TYPE=JSON; name= clears.")
        var fields: [FieldArgument]
        @Option(help: "The change tag that the record must have.")
        var tag: String?
        @Option(help: "The record type; creates the record if it does not exist.")
        var type: String?
        @OptionGroup var zone: ZoneOptions
        @OptionGroup var remote: RemoteOptions

        func run() async throws {
            if type == nil, let record = try await RecordsCommand.lookup([name], in: zone, remote).first,
                record.text("serverErrorCode") == "NOT_FOUND"
            {
                throw CommandFailure(.failed, "There is no record \(name) in \(zone.zone). Add --type to create it.")
            }
            let kind = tag == nil ? "forceUpdate" : "update"
            let write = RecordWrite(kind, name: name, type: type, tag: tag, fields: fields)
            try await RecordWrite.perform([write], in: zone, remote)
        }
    }

    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Delete records by their names.")

        @Argument(help: "The records' names.")
        var names: [String]
        @OptionGroup var zone: ZoneOptions
        @OptionGroup var remote: RemoteOptions

        func run() async throws {
            try await RecordWrite.perform(names.map { RecordWrite("forceDelete", name: $0) }, in: zone, remote)
        }
    }
}

/// One operation of a write.
struct RecordWrite {
    var kind: String
    var name: String?
    var type: String?
    var tag: String?
    var fields: [FieldArgument]

    init(_ kind: String, name: String? = nil, type: String? = nil, tag: String? = nil, fields: [FieldArgument] = []) {
        self.kind = kind
        self.name = name
        self.type = type
        self.tag = tag
        self.fields = fields
    }

    /// The maximum number of operations per request.
    static let mostInOne = 200

    static func perform(_ writes: [RecordWrite], in zone: ZoneOptions, _ remote: RemoteOptions) async throws {
        for start in stride(from: 0, to: writes.count, by: mostInOne) {
            var body = JSONWriter()
            body.object { body in
                zone.write(to: &body)
                body.member("atomic", false)
                body.key("operations")
                body.array(writes[start..<min(start + mostInOne, writes.count)]) { $1.write(to: &$0) }
            }
            let outcomes = try await remote.call("records/modify", body).list("records")
            try RecordTable.say(outcomes: outcomes, json: remote.json)
        }
    }

    private func write(to writer: inout JSONWriter) {
        writer.object { operation in
            operation.member("operationType", kind)
            operation.key("record")
            operation.object { record in
                if let name { record.member("recordName", name) }
                if let type { record.member("recordType", type) }
                if let tag { record.member("recordChangeTag", tag) }
                record.key("fields")
                record.object { object in fields.forEach { $0.write(to: &object) } }
            }
        }
    }
}
