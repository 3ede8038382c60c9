import ArgumentParser
import Foundation
import Records
import RelayStore
import Wire

/// `zonecast shares`: manages shares, participants and permissions.
struct SharesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "shares",
        abstract: "Share zones and records, and manage participants.",
        discussion: """
            Works as a user of a running relay:
              zonecast shares create Notes --title "My notes" --url … --container … --web-token …
              zonecast shares invite Notes bob@example.org --write …
              zonecast shares accept LINK …
            A share is named by its zone; for a shared hierarchy of records, add --root NAME.
            """,
        subcommands: [
            List.self, Create.self, Invite.self, Accept.self, Participants.self, PermissionCommand.self, Stop.self,
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
    mutating func anyShare() async throws -> JSONValue {
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
    var place: String { zone.shellWord + (root.map { " --root \($0.shellWord)" } ?? "") }

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
                    "The record \(root) is not shared. Share it: zonecast shares create \(zone) --root \(root)"
                )
            }
            name = share
        }
        do {
            return try await record(name)
        } catch let failure as CommandFailure where root == nil && failure.exit == .failed {
            throw CommandFailure(
                .failed,
                "The zone \(zone) is not shared as a whole. Share it: zonecast shares create \(zone)"
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
