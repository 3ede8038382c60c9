import ArgumentParser
import Foundation
import Records
import RelayCore
import RelaySystem
import Wire

/// `zonecast share`: manages shares, participants and permissions.
struct ShareCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "share",
        abstract: "Share zones and records, and manage participants.",
        discussion: """
            Works as a user of a running relay:
              zonecast share create Notes --title "My notes" --url … --container … --web-token …
              zonecast share invite Notes bob@example.org --write …
              zonecast share accept LINK …
            A share is named by its zone; for a shared hierarchy of records, add --root NAME.
            """,
        subcommands: [
            Create.self, List.self, Show.self, Invite.self, Accept.self, PermissionCommand.self, Stop.self,
        ]
    )
}

/// The options that select a share in the user's database.
struct ShareOptions: ParsableArguments {
    @Argument(help: "The zone that is shared or contains the shared records.")
    var zone: String
    @Option(help: "The root record of a shared hierarchy; if omitted, the whole zone.")
    var root: String?
    @Option(
        help: ArgumentHelp(
            "The zone's owner, if several people share a zone of that name with you.",
            valueName: "record name"
        )
    )
    var owner: String?
    @OptionGroup var relay: RelayOptions
    @Flag(help: "Print the relay's JSON.")
    var json = false

    /// Like `share`, but finds a zone shared by another user if the user has no zone of that name.
    mutating func shareOfAnyKind() async throws -> JSONValue {
        let isOwn = try await relay.call("private/zones/list").list("zones")
            .contains { $0["zoneID"]?.text("zoneName") == zone }
        if !isOwn, owner == nil {
            let owners = try await relay.call("shared/zones/list").list("zones").compactMap { $0["zoneID"] }
                .filter { $0.text("zoneName") == zone }.compactMap { $0.text("ownerRecordName") }
            guard owners.count < 2 else {
                throw CommandFailure(
                    .failed,
                    "Several people share a zone \(zone) with you. Name the owner with --owner, one of: "
                        + owners.joined(separator: ", ")
                )
            }
            owner = owners.first
        }
        return try await share()
    }

    /// The arguments that name the share again, for suggested commands.
    var arguments: String { zone.shellWord + (root.map { " --root \($0.shellWord)" } ?? "") }

    /// Prints participants as a table.
    func show(participants: [JSONValue]) throws {
        if json { return participants.forEach { Terminal.say($0.line) } }
        Terminal.say(
            table: participants.map { participant in
                [
                    participant.participantTitle, participant.text("type") ?? "",
                    participant.text("permission") ?? "", participant.text("acceptanceStatus") ?? "",
                    participant.text("participantId") ?? "",
                ]
            },
            heading: ["PARTICIPANT", "ROLE", "PERMISSION", "STATUS", "ID"],
            empty: "There are no participants."
        )
    }

    private var zoneID: String {
        #"{"zoneName":\#(quoted(zone))\#(owner.map { #","ownerRecordName":\#(quoted($0))"# } ?? "")}"#
    }

    private var database: String { owner == nil ? "private" : "shared" }

    /// Fetches the share's record.
    func share() async throws -> JSONValue {
        var name = Share.zoneWideName
        if let root {
            let found = try await record(root)
            guard let share = found["share"]?.text("recordName") else {
                throw CommandFailure(
                    .failed,
                    "The record \(root) is not shared. Share it: zonecast share create \(zone) --root \(root)"
                )
            }
            name = share
        }
        do {
            return try await record(name)
        } catch let failure as CommandFailure where root == nil && failure.exit == .failed {
            throw CommandFailure(
                .failed,
                "The zone \(zone) is not shared as a whole. Share it: zonecast share create \(zone)"
            )
        }
    }

    func record(_ name: String) async throws -> JSONValue {
        let answer = try await relay.call(
            "\(database)/records/lookup",
            #"{"zoneID":\#(zoneID),"records":[{"recordName":\#(quoted(name))}]}"#
        )
        guard let record = answer.list("records").first else { throw CommandFailure(.failed, "There is no \(name).") }
        guard record["serverErrorCode"] == nil else { throw CommandFailure(refusal: record) }
        return record
    }

    /// Performs operations on the zone atomically and returns the records.
    func modify(_ operations: [String]) async throws -> [JSONValue] {
        let answer = try await relay.call(
            "\(database)/records/modify",
            #"{"zoneID":\#(zoneID),"operations":[\#(operations.joined(separator: ","))]}"#
        )
        let records = answer.list("records")
        let guilty = records.first { $0["serverErrorCode"] != nil && $0.text("serverErrorCode") != "ATOMIC_ERROR" }
        if let guilty { throw CommandFailure(refusal: guilty) }
        if answer["serverErrorCode"] != nil { throw CommandFailure(refusal: answer) }
        return records
    }

    /// Saves the share with changed members, if it has not changed since it was read.
    func update(_ share: JSONValue, _ members: String) async throws -> JSONValue {
        let name = quoted(share.text("recordName") ?? "")
        let tag = quoted(share.text("recordChangeTag") ?? "")
        let record =
            #"{"recordName":\#(name),"recordType":"cloudkit.share","recordChangeTag":\#(tag),"fields":{},\#(members)}"#
        return try await modify([#"{"operationType":"update","record":\#(record)}"#]).first ?? share
    }

    func show(_ share: JSONValue) {
        if json { return Terminal.say(share.line) }
        Terminal.say(share.text("url") ?? "")
    }
}

/// A permission, as named on the command line.
enum ShareRight: String, ExpressibleByArgument, CaseIterable {
    case none
    case read
    case write

    var word: String {
        switch self {
        case .none: Share.Permission.none.word
        case .read: Share.Permission.readOnly.word
        case .write: Share.Permission.readWrite.word
        }
    }
}

extension JSONValue {
    /// A participant's name, else the address or number of the invitation.
    var participantTitle: String {
        let identity = self["userIdentity"]
        let names = identity?["nameComponents"]
        let name = [names?.text("givenName"), names?.text("familyName")].compactMap { $0 }.joined(separator: " ")
        let info = identity?["lookupInfo"]
        let address = info?.text("emailAddress") ?? info?.text("phoneNumber")
        let shown = [name.isEmpty ? nil : name, address].compactMap { $0 }.joined(separator: ", ")
        return shown.isEmpty ? identity?.text("userRecordName") ?? "?" : shown
    }
}

extension ShareCommand {
    /// `zonecast share list`.
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List your shares and those shared with you."
        )
        @OptionGroup var relay: RelayOptions
        @Flag(help: "Print one line of JSON per share.")
        var json = false

        func run() async throws {
            var rows: [[String]] = []
            for database in ["private", "shared"] {
                let zones = try await relay.call("\(database)/zones/list").list("zones")
                for zone in zones {
                    guard let id = zone["zoneID"], id.text("zoneName") != ZoneID.defaultName else { continue }
                    for share in try await shares(in: id, of: database) {
                        if json { Terminal.say(share.line) } else { rows.append(row(share, id, database)) }
                    }
                }
            }
            guard !json else { return }
            Terminal.say(
                table: rows,
                heading: ["ZONE", "ROOT", "TITLE", "OWNER", "PERMISSION", "PARTICIPANTS", "LINK"],
                empty: "Nothing is shared. Share a zone: zonecast share create ZONE"
            )
        }

        /// Returns all share records of a zone, from its changes.
        private func shares(in zone: JSONValue, of database: String) async throws -> [JSONValue] {
            var found: [JSONValue] = []
            var token: String?
            while true {
                let since = token.map { #","syncToken":\#(quoted($0))"# } ?? ""
                let answer = try await relay.call(
                    "\(database)/changes/zone",
                    #"{"zones":[{"zoneID":\#(zone.line),"desiredRecordTypes":["cloudkit.share"]\#(since)}]}"#
                )
                guard let page = answer.list("zones").first, page["serverErrorCode"] == nil else { return found }
                found += page.list("records").filter { (try? $0["deleted"]?.bool()) != true }
                token = page.text("syncToken")
                guard (try? page["moreComing"]?.bool()) == true else { return found }
            }
        }

        private func row(_ share: JSONValue, _ zone: JSONValue, _ database: String) -> [String] {
            let own = share["currentUserParticipant"]
            let title = (try? share["fields"]?["cloudkit.title"]?["value"]?.string()) ?? ""
            return [
                zone.text("zoneName") ?? "", share["rootRecord"]?.text("recordName") ?? "whole zone", title,
                database == "private" ? "you" : share["owner"]?.participantTitle ?? "",
                own?.text("permission") == "READ_ONLY" ? "read" : "write",
                share.text("publicPermission") == "NONE"
                    ? "\(share.list("participants").count)" : "anyone with the link",
                share.text("url") ?? "",
            ]
        }
    }

    /// `zonecast share create`.
    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Share a zone, or with --root a record and all below it."
        )
        @OptionGroup var options: ShareOptions
        @Option(help: "The title that people see before they join.")
        var title: String?
        @Option(name: .customLong("public"), help: "The permission of anyone with the link: none, read or write.")
        var publicRight: ShareRight = .none

        func run() async throws {
            var record = #""recordType":"cloudkit.share","publicPermission":"\#(publicRight.word)""#
            record += #","fields":{\#(title.map { #""cloudkit.title":{"value":\#(quoted($0))}"# } ?? "")}"#
            if let root = options.root {
                let name = "share-\(UUID().uuidString)"
                record += #","recordName":"\#(name)","forRecord":{"recordName":\#(quoted(root))}"#
            } else {
                record += #","recordName":"\#(Share.zoneWideName)""#
            }
            let made: [JSONValue]
            do {
                made = try await options.modify([#"{"operationType":"create","record":{\#(record)}}"#])
            } catch let failure as CommandFailure where failure.exit == .conflict && options.root == nil {
                throw CommandFailure(
                    .conflict,
                    "The zone \(options.zone) is already shared. List its participants: zonecast share show \(options.arguments)"
                )
            }
            guard let share = made.first else { throw CommandFailure(.failed, "The relay returned no share.") }
            options.show(share)
            guard !options.json, publicRight == .none else { return }
            Terminal.sayError(
                "The share has no participants yet. Invite people: zonecast share invite \(options.arguments) ADDRESS …"
            )
        }
    }

    /// `zonecast share invite`.
    struct Invite: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Invite people by e-mail address, telephone number or user record name.",
            discussion: """
                Prints a personal link for each: send it only to that address, because anyone who has it can join \
                in that person's place. A person without an account can join after creating one with the address.
                """
        )
        @OptionGroup var options: ShareOptions
        @Argument(help: "Addresses, numbers or record names.")
        var who: [String]
        @Flag(help: "Also grant write permission.")
        var write = false

        func validate() throws {
            guard who.contains(where: { $0.allSatisfy(\.isWhitespace) }) else { return }
            throw ValidationError(
                "A name is empty. Use an e-mail address, a telephone number or a record name."
            )
        }

        /// Returns the lookup key for an address, number or record name; `nil` if the text is none of them.
        private static func key(of text: String) -> String? {
            if text.hasPrefix("_") { return "userRecordName" }
            if text.contains("@") { return "emailAddress" }
            return PhoneNumber.canonical(text) == nil ? nil : "phoneNumber"
        }

        func run() async throws {
            let share = try await options.share()
            let right = (write ? ShareRight.write : .read).word
            let added = try who.map { text in
                guard let key = Self.key(of: text) else {
                    throw CommandFailure(
                        .usage,
                        "\"\(text)\" is not an e-mail address, a telephone number with its country code (+49…) or a user record name (_…)."
                    )
                }
                return #"{"permission":"\#(right)","userIdentity":{"lookupInfo":{"\#(key)":\#(quoted(text))}}}"#
            }
            let known = share.list("participants")
            let list = (known.map(\.line) + added).joined(separator: ",")
            let saved = try await options.update(share, #""participants":[\#(list)]"#)
            if options.json { return Terminal.say(saved.line) }
            let old = Set(known.compactMap { $0.text("participantId") })
            for participant in saved.list("participants") {
                guard let id = participant.text("participantId") else { continue }
                // People named again are listed again, since the caller may need their link.
                guard !old.contains(id) || who.contains(where: { participant.isParticipant($0) }) else { continue }
                Terminal.say("\(participant.participantTitle)  \(participant.text("invitationURL") ?? "has joined")")
            }
        }
    }

    /// `zonecast share accept`.
    struct Accept: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Accept a share by its link.")
        @Argument(help: "The link, or its last part.")
        var link: String
        @OptionGroup var relay: RelayOptions
        @Flag(help: "Print the relay's JSON.")
        var json = false

        func run() async throws {
            let answer = try await relay.call(
                "public/records/accept",
                #"{"shortGUIDs":[{"value":\#(quoted(link))}]}"#
            )
            guard let result = answer.list("results").first else {
                throw CommandFailure(.failed, "The relay returned no result for the link.")
            }
            guard result["serverErrorCode"] == nil else { throw CommandFailure(refusal: result) }
            if json { return Terminal.say(result.line) }
            let zone = result["zoneID"]?.text("zoneName") ?? ""
            guard result.text("databaseScope") == "SHARED" else { return Terminal.tell("\(zone) is your own zone.") }
            let right = result.text("participantPermission") == "READ_ONLY" ? "read-only" : "read and write"
            Terminal.tell("accepted  \(zone)  (\(right))")
        }
    }

    /// `zonecast share show`.
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the participants of a share.",
            discussion: "Works for your own shares and for shares with you."
        )
        @OptionGroup var options: ShareOptions

        func run() async throws {
            var options = options
            try options.show(participants: try await options.shareOfAnyKind().list("participants"))
        }
    }

    /// `zonecast share permission`.
    struct PermissionCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "permission",
            abstract: "Edit the permission of a participant, or of anyone with the link; remove a participant.",
            discussion: """
                A public link and named participants exclude each other: opening the link revokes pending invitations, closing \
                it removes those who joined by it. Both list the affected people and require --yes.
                """
        )
        @OptionGroup var options: ShareOptions
        @Option(help: "none, read or write.")
        var may: ShareRight?
        @Option(help: "Remove the participant with this ID, address or number from the share.")
        var remove: String?
        @Option(help: "The participant's ID, address or number; if omitted, the public link.")
        var participant: String?
        @Flag(help: "Confirm, even if people lose access.")
        var yes = false

        func validate() throws {
            guard remove == nil else {
                if may != nil || participant != nil { throw ValidationError("Use --remove alone.") }
                return
            }
            if may == nil { throw ValidationError("Add --may none, --may read, --may write or --remove.") }
        }

        func run() async throws {
            if let remove { return try await delete(remove) }
            guard let may else { return }
            let share = try await options.share()
            let list = share.list("participants")
            guard let participant else { return try await changePublic(share, list, may) }
            guard list.contains(where: { $0.isParticipant(participant) }) else {
                throw CommandFailure(.failed, "There is no participant \(participant).")
            }
            let changed = list.map { one in
                guard one.isParticipant(participant), let id = one.text("participantId") else { return one.line }
                return #"{"participantId":\#(quoted(id)),"permission":"\#(may.word)"}"#
            }
            options.show(try await options.update(share, #""participants":[\#(changed.joined(separator: ","))]"#))
        }

        private func delete(_ remove: String) async throws {
            var options = options
            let share = try await options.shareOfAnyKind()
            guard options.owner == nil else {
                throw CommandFailure(.notAllowed, "Only the owner of the share can do that.")
            }
            let all = share.list("participants")
            let kept = all.filter { !$0.isParticipant(remove) }
            guard kept.count < all.count else {
                throw CommandFailure(
                    .failed,
                    "There is no participant \(remove). To list them: zonecast share show \(options.arguments)"
                )
            }
            let body = #""participants":[\#(kept.map(\.line).joined(separator: ","))]"#
            try options.show(participants: try await options.update(share, body).list("participants"))
        }

        private func changePublic(_ share: JSONValue, _ list: [JSONValue], _ may: ShareRight) async throws {
            let isOpen = share.text("publicPermission") != "NONE"
            let lost = list.filter { one in
                may == .none
                    ? one.text("type") == "PUBLIC_USER"
                    : !isOpen && one.text("acceptanceStatus") == "INVITED"
            }
            if !lost.isEmpty, !yes {
                let names = lost.map(\.participantTitle).joined(separator: "; ")
                let what = may == .none ? "lose access" : "lose their invitations, but can join by the link"
                throw CommandFailure(.failed, "These people would \(what): \(names). Add --yes to confirm.")
            }
            options.show(try await options.update(share, #""publicPermission":"\#(may.word)""#))
        }
    }

    /// `zonecast share stop`.
    struct Stop: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Stop sharing; the owner keeps everything.",
            discussion: """
                All participants lose access at once. With --return-to, the records move to that zone at the same time, and \
                the empty zone is deleted. For another user's share, you leave it and the share stays.
                """
        )
        @OptionGroup var options: ShareOptions
        @Option(help: "Move all records of the zone to this one, and delete the zone.")
        var returnTo: String?

        func run() async throws {
            var options = options
            let share = try await options.shareOfAnyKind()
            guard let returnTo else {
                let name = quoted(share.text("recordName") ?? "")
                _ = try await options.modify([
                    #"{"operationType":"forceDelete","record":{"recordName":\#(name)}}"#
                ])
                guard options.owner == nil else { return try report("left", options.zone, "left  \(options.zone)") }
                return try report("stopped", options.zone, "stopped  everything is still in \(options.zone)")
            }
            guard options.owner == nil else {
                throw CommandFailure(.notAllowed, "Only the owner of the share can do that.")
            }
            guard options.root == nil else {
                throw CommandFailure(.usage, "--return-to moves a whole zone and cannot be used with --root.")
            }
            let answer = try await options.relay.call(
                "private/records/move",
                #"{"zoneID":{"zoneName":\#(quoted(options.zone))},"destinationZoneID":{"zoneName":\#(quoted(returnTo))},"#
                    + #""allRecords":true,"createDestination":true,"deleteSource":true}"#
            )
            if answer["serverErrorCode"] != nil {
                throw CommandFailure(refusal: answer.list("records").first { $0["serverErrorCode"] != nil } ?? answer)
            }
            let moved = answer.list("records").count
            try report(
                "stopped",
                returnTo,
                "stopped  \(moved.of("record")) \(moved == 1 ? "is" : "are") in \(returnTo)"
            )
        }

        /// Prints the outcome; `zone` contains the records now.
        private func report(_ outcome: String, _ zone: String, _ line: String) throws {
            guard options.json else { return Terminal.tell(line) }
            try Terminal.say(json: ["outcome": outcome, "zone": zone])
        }
    }
}

extension JSONValue {
    /// Whether the participant has this ID, address, number or record name.
    fileprivate func isParticipant(_ wanted: String) -> Bool {
        let identity = self["userIdentity"]
        let info = identity?["lookupInfo"]
        return text("participantId") == wanted
            || info?.text("emailAddress").map { $0 == EmailAddress.canonical(wanted) } ?? false
            || info?.text("phoneNumber").map { $0 == PhoneNumber.canonical(wanted) } ?? false
            || identity?.text("userRecordName") == wanted
    }
}
