import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// Every error that a request can cause, by status, code and reason.
///
/// See Errors.md, "Error dictionary" and "Codes".
@Suite(.timeLimit(.minutes(15))) struct ErrorTableTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var operation: String
        var body = "{}"
        var user: String? = "alice"
        var method = HTTPRequest.Method.post
        var status: Int
        var code: String
        /// A part of the reason.
        var reason = ""
        /// The list that contains the failed item.
        var list: String?

        init(
            _ testDescription: String,
            _ operation: String,
            _ body: String = "{}",
            as user: String? = "alice",
            by method: HTTPRequest.Method = .post,
            is status: Int,
            _ code: String,
            _ reason: String = "",
            in list: String? = nil
        ) {
            self.testDescription = testDescription
            self.operation = operation
            self.body = body
            self.user = user
            self.method = method
            self.status = status
            self.code = code
            self.reason = reason
            self.list = list
        }
    }

    static func write(_ operations: String, zone: String = "Notes", atomic: Bool = false) -> String {
        #"{"zoneID":{"zoneName":"\#(zone)"},"atomic":\#(atomic),"operations":[\#(operations)]}"#
    }

    static func query(_ filters: String, more: String = "") -> String {
        #"{"zoneID":{"zoneName":"Notes"},"query":{"recordType":"Note","filterBy":[\#(filters)]\#(more)}}"#
    }

    @Test(arguments: json + paths + callers + scopes + queries + recordItems + fieldItems + otherItems)
    func everyErrorIsReturnedAsDocumented(_ row: Row) async throws {
        let world = try await prepared()
        let answer = try await world.ask(row.operation, as: row.user, row.body, method: row.method)
        #expect(answer.status == row.status)
        let failed = try row.list.map { list in
            try #require(try answer.json.members().first { $0.name == list }?.value.elements().first)
        }
        let error = failed ?? answer.json
        #expect(error.text("serverErrorCode") == row.code)
        let reason = try #require(error.text("reason"))
        #expect(reason.contains(row.reason), "\(reason)")
        #expect(reason.count >= 10 && reason.utf8.allSatisfy { $0 >= 0x20 }, "\(reason)")
        if failed == nil { #expect(error.text("uuid")?.count == 36) }
        if row.status == 405 { #expect(answer.response.headers[.allow]?.contains("OPTIONS") == true) }
        if row.status == 421 { #expect(error.text("redirectURL")?.contains("/signin?") == true) }
        if reason.contains("client knowledge") { #expect(error.text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED") }
        if row.code == "CONFLICT" { #expect(error["serverRecord"] != nil) }
    }

    /// Returns a relay with a zone that contains a record of Alice's, a type with an encrypted field, and a public
    /// record.
    private func prepared() async throws -> RelayWorld {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        let made = try await world.modify([
            .init(
                kind: "create",
                name: "a",
                fields: #"{"n":{"value":1},"secret":{"value":"x","type":"STRING","isEncrypted":true}}"#
            )
        ])
        #expect(try made.items("records").first?.text("serverErrorCode") == nil)
        let shown = try await world.modify(
            in: "public",
            zone: "_defaultZone",
            [.init(kind: "create", name: "theirs", fields: #"{"n":{"value":1}}"#)]
        )
        #expect(try shown.items("records").first?.text("serverErrorCode") == nil)
        return world
    }
}
