import ArgumentParser
import Foundation
import Records
import RelayStore
import Wire

/// `zonecast shares`: what is shared, with whom, and who may do what.
struct SharesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "shares",
        abstract: "Share zones and records, and manage who is in.",
        discussion: """
            Works as a user of a running relay:
              zonecast shares create Notes --title "My notes" --url … --container … --web-token …
              zonecast shares invite Notes bob@example.org --write …
              zonecast shares accept LINK …
            A share is named by its zone; where records are shared by hierarchy, add --root NAME.
            """,
        subcommands: [
            List.self, Create.self, Invite.self, Accept.self, Participants.self, PermissionCommand.self, Stop.self,
        ]
    )
}

/// Which share a command speaks of, in the user's own database.
struct ShareOptions: ParsableArguments {
    @Argument(help: "The zone that is shared, or holds what is shared.")
    var zone: String
    @Option(help: "The root record of a shared hierarchy; without it the whole zone is meant.")
    var root: String?
    @Option(
        help: ArgumentHelp(
            "Whose zone it is, where several people share one of that name with you.",
            valueName: "record name"
        )
    )
    var owner: String?
    @OptionGroup var relay: RelayOptions
    @Flag(help: "Answer with the relay's own JSON.")
    var json = false

    /// As `share`, but where the user has no such zone it is the one that somebody shares with them.
    mutating func anyShare() async throws -> JSONValue {
        let isOwn = try await relay.call("private/zones/list").list("zones")
            .contains { $0["zoneID"]?.text("zoneName") == zone }
        if !isOwn, owner == nil {
            let owners = try await relay.call("shared/zones/list").list("zones").compactMap { $0["zoneID"] }
                .filter { $0.text("zoneName") == zone }.compactMap { $0.text("ownerRecordName") }
            guard owners.count < 2 else {
                throw CommandFailure(
                    .failed,
                    "Several people share a zone \(zone) with you. Say whose is meant with --owner, one of: "
                        + owners.joined(separator: ", ")
                )
            }
            owner = owners.first
        }
        return try await share()
    }

    /// What names the share once more, on a command line.
    var place: String { zone.shellWord + (root.map { " --root \($0.shellWord)" } ?? "") }

    private var zoneID: String {
        #"{"zoneName":\#(quoted(zone))\#(owner.map { #","ownerRecordName":\#(quoted($0))"# } ?? "")}"#
    }

    private var database: String { owner == nil ? "private" : "shared" }

    /// The share's record as the relay has it.
    func share() async throws -> JSONValue {
        var name = Share.zoneWideName
        if let root {
            let found = try await record(root)
            guard let share = found["share"]?.text("recordName") else {
                throw CommandFailure(
                    .failed,
                    "The record \(root) is not shared. Share it with: zonecast shares create \(zone) --root \(root)"
                )
            }
            name = share
        }
        do {
            return try await record(name)
        } catch let failure as CommandFailure where root == nil && failure.exit == .failed {
            throw CommandFailure(
                .failed,
                "The zone \(zone) is not shared as a whole. Share it with: zonecast shares create \(zone)"
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

    /// Carries out operations on the zone, all or none, and gives the records.
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

    /// Saves the share with other members, if nobody has changed it since it was read.
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

/// What somebody may do, as it is said on the command line.
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
    /// How a participant is called in a list: their name, else what they were invited by.
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
