import Sockets

/// The content of every record: about 300 bytes of JSON in a request, and the same text in a floor's row.
enum SampleRecord {
    private static let fields = """
        {"title":{"value":"Bread, milk and what else we need","type":"STRING"},\
        "body":{"value":"A line of text that is neither short nor long, as notes are.","type":"STRING"},\
        "position":{"value":1234567,"type":"INT64"},"done":{"value":0,"type":"INT64"}}
        """

    /// The `create` operation of a record with a numbered name.
    static let operation = """
        {"operationType":"create","record":\
        {"recordName":"record-\(NumberedRequest.mark)","recordType":"Note","fields":\(fields)}}
        """

    /// The row that SQLite's and PostgreSQL's floors insert.
    static let row = """
        {"recordName":"record-0000000000000000","recordType":"Note","fields":\(fields)}
        """
}

extension Relay {
    /// Creates `count` records in one zone, in one atomic request.
    func create(_ count: Int, in zone: String, as login: Login? = nil) -> NumberedRequest {
        let operations = Array(repeating: SampleRecord.operation, count: count).joined(separator: ",")
        let body = #"{"zoneID":{"zoneName":"\#(zone)"},"operations":[\#(operations)]}"#
        return NumberedRequest(call("records/modify", body, as: login))
    }

    /// Fetches a page of a zone's feed, from the beginning without a token.
    func changes(in zone: String, since token: String?, limit: Int = 200) -> [UInt8] {
        let since = token.map { #","syncToken":"\#($0)""# } ?? ""
        let body = #"{"zones":[{"zoneID":{"zoneName":"\#(zone)"}\#(since)}],"resultsLimit":\#(limit)}"#
        return call("changes/zone", body).bytes
    }

    func makeZones(_ names: [String], as login: Login? = nil) throws {
        for start in stride(from: 0, to: names.count, by: 100) {
            let operations = names[start..<min(start + 100, names.count)].map {
                #"{"operationType":"create","zone":{"zoneID":{"zoneName":"\#($0)"}}}"#
            }
            try ask("zones/modify", #"{"operations":[\#(operations.joined(separator: ","))]}"#, as: login)
        }
    }

    /// Subscribes all devices of the user to changes of the private database.
    func subscribe(as login: Login? = nil) throws {
        let subscription = #"{"subscriptionID":"all","subscriptionType":"database"}"#
        let body = #"{"operations":[{"operationType":"create","subscription":\#(subscription)}]}"#
        try ask("subscriptions/modify", body, as: login)
    }

    /// Sends a call on a connection of its own; it must succeed.
    func ask(_ operation: String, _ body: String, as login: Login? = nil) throws {
        let connection = try HTTPConnection(to: endpoint)
        try connection.exchange(call(operation, body, as: login).bytes) { try $0.mustBeSuccess() }
    }
}

extension HTTPReply {
    /// Throws the relay's response if the relay refused the request or a part of it.
    func mustBeSuccess() throws(LoadError) {
        guard status == 200, HTTPHead.position(of: "serverErrorCode", in: body) == nil else {
            throw .peer("The relay answered \(status): \(text.prefix(500))")
        }
    }
}
