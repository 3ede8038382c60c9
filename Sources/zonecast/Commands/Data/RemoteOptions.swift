import ArgumentParser
import Records
import Wire

/// The options that select a database of a relay and the output format.
struct RemoteOptions: ParsableArguments {
    /// The names in URLs; `DatabaseScope` has the numbers used in notices.
    enum Database: String, ExpressibleByArgument, CaseIterable { case `public`, `private`, shared }

    @OptionGroup var relay: RelayOptions
    @Option(help: "The container's database.")
    var database = Database.private
    @Flag(help: "Print the relay's JSON, one line per item.")
    var json = false

    /// Calls an operation of the database and returns its response.
    func call(_ operation: String, _ body: borrowing JSONWriter) async throws -> JSONValue {
        let text = String(decoding: body.bytes, as: UTF8.self)
        return try await relay.call("\(database.rawValue)/\(operation)", text)
    }

    /// Like `call`, and adds the names of near zones and record types to an error about an unknown one.
    func call(
        _ operation: String,
        _ body: borrowing JSONWriter,
        in zone: ZoneOptions,
        type: String? = nil
    ) async throws -> JSONValue {
        do {
            return try await call(operation, body)
        } catch let failure as CommandFailure {
            throw await suggesting(failure, in: zone, type: type)
        }
    }

    /// Returns the error with near names, which are read from the relay.
    func suggesting(_ failure: CommandFailure, in zone: ZoneOptions, type: String? = nil) async -> CommandFailure {
        var failure = failure
        var near: String?
        if failure.code == ErrorCode.zoneNotFound.rawValue {
            let zones = try? await relay.call("\(database.rawValue)/zones/list").list("zones")
            let names = zones?.compactMap { $0["zoneID"]?.text("zoneName") } ?? []
            near = ConfigurationKeys.suggestion(for: zone.zone, among: names.filter { $0 != zone.zone })
        } else if let type, failure.description.hasPrefix("Did not find record type") {
            let rights = try? await relay.call("public/limits")["rights"]?.members().map(\.0)
            near = ConfigurationKeys.suggestion(for: type, among: rights ?? [])
        }
        guard let near else { return failure }
        let stop = failure.description.hasSuffix(".") ? "" : "."
        failure.description += "\(stop) Did you mean \(near)?"
        return failure
    }
}

/// The options that select a zone.
struct ZoneOptions: ParsableArguments {
    @Option(help: "The zone.")
    var zone = ZoneID.defaultName
    @Option(help: ArgumentHelp("The zone's owner, in the shared database.", valueName: "record name"))
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
