import ArgumentParser
import Records
import Wire
import ZoneKit

/// `zonecast zone`: manages the zones of a database of a running relay.
struct ZoneCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "zone",
        abstract: "List, create and delete zones of a running relay.",
        subcommands: [Create.self, List.self, Delete.self, Changes.self]
    )

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the zones of a database.")

        @OptionGroup var remote: RemoteOptions

        func run() async throws {
            var body = JSONWriter()
            body.object { _ in }
            try ZoneCommand.say(try await remote.call("zones/list", body).list("zones"), remote)
        }
    }

    struct Changes: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the zones that changed; with --follow, print notices as they arrive.",
            discussion: """
                --follow connects as an additional device of the user until it is stopped. A user without any subscription gets \
                one to the database while this runs, since the relay sends notices for subscriptions only. Connection problems are \
                reported and retried; the command ends only if the relay refuses the tokens or the subscription.
                """
        )

        @Option(help: ArgumentHelp("Only zones that changed after this token.", valueName: "token"))
        var since: String?
        @Flag(name: .shortAndLong, help: "Print one line per notice, until control-C; with --since, the changes first.")
        var follow = false
        @Option(help: "With --follow: only notices of this zone.")
        var zone: String?
        @OptionGroup var remote: RemoteOptions

        func validate() throws {
            if zone != nil, !follow { throw ValidationError("--zone is for --follow.") }
            if follow, remote.database == .public { throw ValidationError("The public database sends no notices.") }
        }

        func run() async throws {
            if since != nil || !follow { try await list() }
            if follow { try await watch() }
        }

        private func watch() async throws {
            let scope: CKDatabase.Scope = remote.database == .shared ? .shared : .private
            let watch = try await NoticeWatch(remote.relay, database: scope)
            try await watch.run { event in
                switch event {
                case .live(let ready): Terminal.sayError("watching as \(ready.userRecordName) (\(ready.relay))")
                case .notice(let notice): if zone == nil || notice.zone?.zoneName == zone { show(notice) }
                }
            }
        }

        private func show(_ notice: Notice) {
            guard remote.json else {
                let place = notice.zone.map { "zone \($0.zoneName) of \($0.owner)" } ?? "database"
                return Terminal.say(
                    "\(notice.scope.pathName)  \(place)  changed  (subscription \(notice.subscriptionID))"
                )
            }
            let frame = ServerFrame.notice(notice).encoded
            guard let payload = try? JSONDocument(parsing: frame).root["notice"]?.rawBytes else { return }
            Terminal.say(String(decoding: payload, as: UTF8.self))
        }

        private func list() async throws {
            var token = since
            var hasMore = true
            while hasMore {
                var body = JSONWriter()
                body.object { if let token { $0.member("syncToken", token) } }
                let answer = try await remote.call("changes/database", body)
                try ZoneCommand.say(answer.list("zones"), remote)
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

        func run() async throws { try await ZoneCommand.modify("create", names, remote) }
    }

    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Delete zones with all their records.")

        @Argument(help: "The zones' names.")
        var names: [String]
        @OptionGroup var remote: RemoteOptions

        func run() async throws { try await ZoneCommand.modify("delete", names, remote) }
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
