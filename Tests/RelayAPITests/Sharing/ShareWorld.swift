import HTTPTypes
import Records
import RelayAPI
import RelayCore
import StoreTesting
import Testing
import Wire

/// A relay with users who share.
///
/// `alice` is the owner; the others are named by their dev names, which are also addresses.
struct ShareWorld {
    let world: SubscriptionWorld
    static let bob = "bob@example.org"
    static let carol = "carol@example.org"

    init(limits: Limits = Limits(), scheduler: TestStoreOptions.Scheduler? = nil) throws {
        world = try SubscriptionWorld(limits: limits, scheduler: scheduler)
    }

    /// Returns the record name of a user in the container.
    func name(of user: String) async throws -> String {
        try #require(try await world.ask("public/users/caller", as: user).json.text("userRecordName"))
    }

    func zoneID(_ zone: String = "Notes", of owner: String = "alice") async throws -> String {
        #"{"zoneName":"\#(zone)","ownerRecordName":"\#(try await name(of: owner))"}"#
    }

    /// Creates a zone with records.
    func makeZone(_ zone: String = "Notes", notes: [String] = ["a", "b"]) async throws {
        try await world.makeZone(zone)
        guard !notes.isEmpty else { return }
        try await modify(notes.map { Self.save($0, "create", title: $0) }, zone: zone).checked()
    }

    /// Runs operations in a zone of alice's.
    func modify(
        _ operations: [String],
        in database: String = "private",
        zone: String = "Notes",
        as user: String = "alice",
        atomic: Bool = true,
        from device: String? = nil
    ) async throws -> Answer {
        let id = try await zoneID(zone)
        return try await world.ask(
            "\(database)/records/modify",
            as: user,
            #"{"zoneID":\#(id),"atomic":\#(atomic),"operations":[\#(operations.joined(separator: ","))]}"#,
            from: device
        )
    }

    /// Runs one operation and expects that it succeeds.
    @discardableResult
    func one(
        _ operation: String,
        in database: String = "private",
        zone: String = "Notes",
        as user: String = "alice"
    ) async throws -> JSONValue {
        let answer = try await modify([operation], in: database, zone: zone, as: user)
        let record = try #require(try answer.items("records").first)
        #expect(record.text("serverErrorCode") == nil, "\(record.text("reason") ?? "")")
        return record
    }

    /// Returns the error of an operation that is refused.
    func refusal(
        _ operation: String,
        in database: String = "private",
        zone: String = "Notes",
        as user: String = "alice"
    ) async throws -> String? {
        let answer = try await modify([operation], in: database, zone: zone, as: user, atomic: false)
        if let code = answer.code { return code }
        return try answer.items("records").first?.text("serverErrorCode")
    }

    static func save(
        _ name: String,
        _ kind: String = "forceUpdate",
        type: String = "Note",
        title: String = "new",
        extra: String = ""
    ) -> String {
        #"{"operationType":"\#(kind)","record":{"recordName":"\#(name)","recordType":"\#(type)","#
            + #""fields":{"title":{"value":"\#(title)"}}\#(extra)}}"#
    }

    static func delete(_ name: String) -> String {
        #"{"operationType":"forceDelete","record":{"recordName":"\#(name)"}}"#
    }

    /// Returns the operation that creates or changes a share.
    static func share(
        _ kind: String = "create",
        name: String = Share.zoneWideName,
        tag: String? = nil,
        root: String? = nil,
        publicly permission: String? = nil,
        with participants: [String]? = nil,
        title: String? = nil
    ) -> String {
        var parts = [#""recordName":"\#(name)""#, #""recordType":"cloudkit.share""#]
        if let tag { parts.append(#""recordChangeTag":"\#(tag)""#) }
        if let root { parts.append(#""forRecord":{"recordName":"\#(root)"}"#) }
        if let permission { parts.append(#""publicPermission":"\#(permission)""#) }
        if let participants { parts.append(#""participants":[\#(participants.joined(separator: ","))]"#) }
        parts.append(title.map { #""fields":{"cloudkit.title":{"value":"\#($0)"}}"# } ?? #""fields":{}"#)
        return #"{"operationType":"\#(kind)","record":{\#(parts.joined(separator: ","))}}"#
    }

    static func participant(_ address: String, _ permission: String = "READ_ONLY") -> String {
        #"{"type":"USER","permission":"\#(permission)","acceptanceStatus":"INVITED","#
            + #""userIdentity":{"lookupInfo":{"emailAddress":"\#(address)"}}}"#
    }

    /// Shares a whole zone and lets the invitees join.
    @discardableResult
    func shareZone(
        _ zone: String = "Notes",
        with people: [String: String] = [bob: "READ_ONLY"],
        accepting: Bool = true
    ) async throws -> JSONValue {
        let list = people.sorted { $0.key < $1.key }.map { Self.participant($0.key, $0.value) }
        let share = try await one(Self.share(with: list, title: "My notes"), zone: zone)
        guard accepting else { return share }
        for user in people.keys { try await accept(share, as: user) }
        return try await record(Share.zoneWideName, zone: zone)
    }

    @discardableResult
    func accept(_ share: JSONValue, as user: String) async throws -> JSONValue {
        let result = try await open(try #require(share.text("shortGUID")), as: user, by: "accept")
        #expect(result.text("serverErrorCode") == nil, "\(result.text("reason") ?? "")")
        #expect(result.text("participantStatus") == "ACCEPTED")
        return result
    }

    /// Opens a link by `resolve` or `accept`.
    func open(_ link: String, as user: String?, by way: String = "resolve") async throws -> JSONValue {
        let answer = try await world.ask(
            "public/records/\(way)",
            as: user,
            #"{"shortGUIDs":[{"value":"\#(link)","shouldFetchRootRecord":true}]}"#
        )
        return try answer.json["results"]?.elements().first ?? answer.json
    }

    /// Leaves alice's shared zone in the given way.
    func leaveZone(as user: String, by way: String = "leave") async throws -> Answer {
        let id = try await zoneID()
        let body = #"{"operations":[{"operationType":"\#(way)","zone":{"zoneID":\#(id)}}]}"#
        return try await world.ask("shared/zones/modify", as: user, body)
    }

    /// Fetches a record as a user sees it.
    func record(
        _ name: String,
        in database: String = "private",
        zone: String = "Notes",
        as user: String = "alice"
    ) async throws -> JSONValue {
        let id = try await zoneID(zone)
        let answer = try await world.ask(
            "\(database)/records/lookup",
            as: user,
            #"{"zoneID":\#(id),"records":[{"recordName":"\#(name)"}]}"#
        )
        return try answer.json["records"]?.elements().first ?? answer.json
    }

    /// Fetches a page of a zone's feed in the shared database.
    func changes(
        as user: String = bob,
        since token: String? = nil,
        zone: String = "Notes",
        limit: Int = 200,
        in database: String = "shared"
    ) async throws -> JSONValue {
        let id = try await zoneID(zone)
        let since = token.map { #","syncToken":"\#($0)""# } ?? ""
        let answer = try await world.ask(
            "\(database)/changes/zone",
            as: user,
            #"{"zones":[{"zoneID":\#(id),"resultsLimit":\#(limit)\#(since)}]}"#
        )
        return try #require(try answer.items("zones").first)
    }

    /// Returns the names in a page of a feed, deleted ones with a dash.
    static func names(_ page: JSONValue) throws -> [String] {
        try page.required("records").elements().map { record in
            (record.flag("deleted") == true ? "-" : "") + (record.text("recordName") ?? "?")
        }
    }

    /// Returns the token of the shared database's feed and the names of its zones, ended ones with a dash.
    func zones(as user: String = bob, since token: String? = nil) async throws -> (names: [String], token: String) {
        let body = token.map { #"{"syncToken":"\#($0)"}"# } ?? "{}"
        let answer = try await world.ask("shared/changes/database", as: user, body)
        let names = try answer.items("zones").map { zone in
            (zone.flag("deleted") == true ? "-" : "") + (try zone.required("zoneID").text("zoneName") ?? "?")
        }
        return (names, try #require(answer.json.text("syncToken")))
    }

    func participants(of share: JSONValue) throws -> [JSONValue] { try share.required("participants").elements() }
}

extension JSONValue {
    /// The raw JSON, to send back.
    var source: String { String(decoding: rawBytes, as: UTF8.self) }
}
