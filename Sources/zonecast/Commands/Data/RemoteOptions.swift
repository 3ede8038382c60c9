import ArgumentParser
import Records
import Wire

/// Which database of a relay a command speaks to, and how it answers.
struct RemoteOptions: ParsableArguments {
    /// By the names of the wire; `DatabaseScope` is known by the numbers that notices have.
    enum Database: String, ExpressibleByArgument, CaseIterable { case `public`, `private`, shared }

    @OptionGroup var relay: RelayOptions
    @Option(help: "Which of the container's databases.")
    var database = Database.private
    @Flag(help: "Answer with JSON as it is on the wire, one line for each thing.")
    var json = false

    /// Sends one call of the database and gives the answer.
    func call(_ operation: String, _ body: borrowing JSONWriter) async throws -> JSONValue {
        let text = String(decoding: body.bytes, as: UTF8.self)
        return try await relay.call("\(database.rawValue)/\(operation)", text)
    }
}

/// Which zone a command works in.
struct ZoneOptions: ParsableArguments {
    @Option(help: "The zone.")
    var zone = ZoneID.defaultName
    @Option(help: ArgumentHelp("Whose zone it is, in the shared database.", valueName: "record name"))
    var owner: String?

    func write(to writer: inout JSONWriter) { Self.write(zone, owner: owner, to: &writer) }

    static func write(_ zone: String, owner: String? = nil, to writer: inout JSONWriter) {
        writer.key("zoneID")
        writer.object {
            $0.member("zoneName", zone)
            if let owner { $0.member("ownerRecordName", owner) }
        }
    }
}

extension JSONValue {
    /// The value as one line of JSON.
    var line: String { String(decoding: rawBytes, as: UTF8.self) }

    func text(_ name: StaticString) -> String? { try? self[name]?.string() }
}
