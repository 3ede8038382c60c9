import ArgumentParser
import Records
import Wire

/// `zonecast zones`: manages the zones of a database of a running relay.
struct ZonesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "zones",
        abstract: "List, create and delete zones of a running relay.",
        subcommands: [List.self, Create.self, Delete.self, Changes.self]
    )

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the zones of a database.")

        @OptionGroup var remote: RemoteOptions

        func run() async throws {
            var body = JSONWriter()
            body.object { _ in }
            try ZonesCommand.say(try await remote.call("zones/list", body).list("zones"), remote)
        }
    }

    struct Changes: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the zones that changed.")

        @Option(help: ArgumentHelp("Only zones that changed after this token.", valueName: "token"))
        var since: String?
        @OptionGroup var remote: RemoteOptions

        func run() async throws {
            var token = since
            var hasMore = true
            while hasMore {
                var body = JSONWriter()
                body.object { if let token { $0.member("syncToken", token) } }
                let answer = try await remote.call("changes/database", body)
                try ZonesCommand.say(answer.list("zones"), remote)
                token = answer.text("syncToken") ?? token
                hasMore = try answer["moreComing"]?.bool() ?? false
            }
            guard let token else { return }
            if remote.json { try Terminal.say(json: ["syncToken": token]) } else { Terminal.say("token  \(token)") }
        }
    }

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Create zones in the private database.")

        @Argument(help: "The zones' names.")
        var names: [String]
        @OptionGroup var remote: RemoteOptions

        func run() async throws { try await ZonesCommand.modify("create", names, remote) }
    }

    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Delete zones with all their records.")

        @Argument(help: "The zones' names.")
        var names: [String]
        @OptionGroup var remote: RemoteOptions

        func run() async throws { try await ZonesCommand.modify("delete", names, remote) }
    }

    private static func modify(_ kind: String, _ names: [String], _ remote: RemoteOptions) async throws {
        var body = JSONWriter()
        body.object { body in
            body.key("operations")
            body.array(names) { list, name in
                list.object { operation in
                    operation.member("operationType", kind)
                    operation.key("zone")
                    operation.object { ZoneOptions.write(name, to: &$0) }
                }
            }
        }
        let zones = try await remote.call("zones/modify", body).list("zones")
        for zone in zones {
            if remote.json { Terminal.say(zone.line) }
            let name = zone["zoneID"]?.text("zoneName") ?? "?"
            if let reason = zone.text("reason") { throw CommandFailure(.failed, "\(name): \(reason)") }
            if !remote.json { Terminal.tell("\(kind)d  \(name)") }
        }
    }

    private static func say(_ zones: [JSONValue], _ remote: RemoteOptions) throws {
        if remote.json { return zones.forEach { Terminal.say($0.line) } }
        Terminal.say(
            table: zones.map { zone in
                let id = zone["zoneID"]
                let isDeleted = (try? zone["deleted"]?.bool()) == true
                return [id?.text("zoneName") ?? "", id?.text("ownerRecordName") ?? "", isDeleted ? "deleted" : ""]
            },
            heading: ["ZONE", "OWNER", ""],
            empty: "There are no zones."
        )
    }
}
