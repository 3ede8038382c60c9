package import Records

/// A silent change notice: that something changed, never what.
///
/// On the wire it is CloudKit's own push payload beside the zone's token. Wire reference 13.1, notices reference 2.
package struct Notice: Hashable, Sendable {
    /// The kind of subscription it follows.
    ///
    /// The raw value is the payload's key.
    package enum Kind: String, Hashable, Sendable {
        case database = "met"
        case zone = "fet"
    }

    package var kind: Kind
    package var container: String
    package var environment: Environment
    /// Names this notice; all devices of a user get the same.
    package var noticeID: String
    /// The user it is addressed to.
    package var user: UserID
    package var scope: DatabaseScope
    package var subscriptionID: String
    /// `nil`: many zones changed, or nobody can say which; the whole database is to be asked.
    package var zone: ZoneID?
    /// The zone's token after the change: who already holds it need not fetch.
    package var syncToken: String?

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
        } else {
            throw payload.mismatch("an object with a member 'met' or 'fet'")
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
    }

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.key("aps")
            writer.object { $0.member("content-available", 1) }
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
        switch kind {
        case .database: writer.key("met")
        case .zone: writer.key("fet")
        }
        writer.object { writer in
            writer.member("dbs", scope.rawValue)
            writer.member("sid", subscriptionID)
            if let zone {
                writer.member("zid", zone.zoneName)
                writer.member("zoid", zone.owner.recordName)
            }
        }
    }

    private static let productionCode: Int64 = 1
    private static let developmentCode: Int64 = 2
}

extension String {
    fileprivate func inZone(of owner: String?) -> ZoneID { ZoneID(self, owner: owner.map { UserID($0) } ?? .caller) }
}
