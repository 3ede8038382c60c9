package import Records

/// A change notice, which says that something changed but not what; silent unless the subscription requests more.
///
/// On the wire it is CloudKit's push payload, with the zone's token added. See Wire.md, "Notification payload", and
/// Notices.md, "Frames".
package struct Notice: Hashable, Sendable {
    /// The kind of the subscription; the raw value is the payload's key.
    package enum Kind: String, Hashable, Sendable {
        case database = "met"
        case zone = "fet"
        case query = "qry"
    }

    /// The additional content of a query subscription's notice.
    package struct Query: Hashable, Sendable {
        /// `nil` for several records, or if it is unknown which.
        package var recordName: String?
        /// Exactly one event; `nil` if `recordName` is.
        package var reason: RecordEvents?
        /// The requested fields, as a JSON object of bare values.
        package var fields: [UInt8]?
        /// Whether requested fields were left out because of their size.
        package var isPruned = false

        package init(recordName: String? = nil, reason: RecordEvents? = nil) {
            self.recordName = recordName
            self.reason = reason
        }
    }

    package var kind: Kind
    package var container: String
    package var environment: Environment
    /// Identifies the notice; all devices of a user receive the same ID.
    package var noticeID: String
    /// The recipient.
    package var user: UserID
    package var scope: DatabaseScope
    package var subscriptionID: String
    /// `nil` if many zones changed, or if it is unknown which; the client must then fetch the database's changes.
    package var zone: ZoneID?
    /// The zone's token after the change; a client that already has it need not fetch.
    package var syncToken: String?
    /// Only in `query` notices.
    package var query: Query?
    /// The `aps` member as JSON; `nil` for a silent notice.
    package var aps: [UInt8]?

    package init(
        kind: Kind,
        container: String,
        environment: Environment,
        noticeID: String,
        user: UserID,
        scope: DatabaseScope,
        subscriptionID: String,
        zone: ZoneID?,
        syncToken: String?
    ) {
        self.kind = kind
        self.container = container
        self.environment = environment
        self.noticeID = noticeID
        self.user = user
        self.scope = scope
        self.subscriptionID = subscriptionID
        self.zone = zone
        self.syncToken = syncToken
    }

    init(_ body: JSONValue) throws(JSONError) {
        let payload = try body.required("ck")
        container = try payload.required("cid").string()
        environment = try payload["ce"]?.int64() == Self.productionCode ? .production : .development
        noticeID = try payload["nid"]?.string() ?? ""
        user = UserID(try payload["ckuserid"]?.string() ?? "")
        let subject: JSONValue
        if let database = payload["met"] {
            kind = .database
            subject = database
        } else if let zone = payload["fet"] {
            kind = .zone
            subject = zone
        } else if let matched = payload["qry"] {
            kind = .query
            subject = matched
            query = try Self.query(matched, isPruned: payload["p"] != nil)
        } else {
            throw payload.mismatch("an object with a member 'met', 'fet' or 'qry'")
        }
        let scopeValue = try subject.required("dbs")
        guard let scope = DatabaseScope(rawValue: Int(clamping: try scopeValue.int64())) else {
            throw scopeValue.mismatch("1, 2 or 3")
        }
        self.scope = scope
        subscriptionID = try subject["sid"]?.string() ?? ""
        let owner = try subject["zoid"]?.string()
        zone = try subject["zid"]?.string().inZone(of: owner)
        syncToken = try body["syncToken"]?.string()
        aps = body["aps"].map { Array($0.rawBytes) }.flatMap { $0 == Self.silent ? nil : $0 }
    }

    private static func query(_ json: JSONValue, isPruned: Bool) throws(JSONError) -> Query {
        var query = Query(recordName: try json["rid"]?.string())
        query.reason = try json["fo"].flatMap { value throws(JSONError) in
            Self.reasons.first { (try? value.int64()) == $0.code }?.event
        }
        query.fields = json["af"].map { Array($0.rawBytes) }
        query.isPruned = isPruned
        return query
    }

    /// The payload's codes for record events.
    fileprivate static let reasons: [(code: Int64, event: RecordEvents)] = [(1, .create), (2, .update), (3, .delete)]
    private static let silent = Array(#"{"content-available":1}"#.utf8)

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.key("aps")
            writer.raw(aps ?? Self.silent)
            writer.key("ck")
            writer.object { writePayload(to: &$0) }
            if let syncToken { writer.member("syncToken", syncToken) }
        }
    }

    private func writePayload(to writer: inout JSONWriter) {
        writer.member("ce", environment == .production ? Self.productionCode : Self.developmentCode)
        writer.member("cid", container)
        writer.member("nid", noticeID)
        writer.member("ckuserid", user.recordName)
        if query?.isPruned == true { writer.member("p", 1) }
        switch kind {
        case .database: writer.key("met")
        case .zone: writer.key("fet")
        case .query: writer.key("qry")
        }
        writer.object { writer in
            writer.member("dbs", scope.rawValue)
            writer.member("sid", subscriptionID)
            if let zone {
                writer.member("zid", zone.zoneName)
                writer.member("zoid", zone.owner.recordName)
            }
            if let query { query.write(to: &writer) }
        }
    }

    private static let productionCode: Int64 = 1
    private static let developmentCode: Int64 = 2
}

extension Notice.Query {
    /// Writes the members into an open object.
    fileprivate func write(to writer: inout JSONWriter) {
        if let recordName { writer.member("rid", recordName) }
        if let reason, let code = Notice.reasons.first(where: { $0.event == reason })?.code {
            writer.member("fo", code)
        }
        if let fields {
            writer.key("af")
            writer.raw(fields)
        }
    }
}

extension String {
    fileprivate func inZone(of owner: String?) -> ZoneID { ZoneID(self, owner: owner.map { UserID($0) } ?? .caller) }
}
