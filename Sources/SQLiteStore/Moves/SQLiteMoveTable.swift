import StoreKit

/// How a table that moves is stored here.
struct SQLiteMoveTable {
    let table: MovedTable

    init(_ table: MovedTable) { self.table = table }

    var name: String {
        switch table {
        case .zone: "zone_row"
        case .record, .reference, .share, .participant, .subscription, .role, .transfer: table.rawValue
        case .assetUse: "asset_use"
        case .shareRequest: "share_request"
        case .shareAlias: "share_alias"
        case .sharedZone: "shared_zone"
        case .shareEntry: "share_entry"
        case .doneWrite, .ownerDoneWrite: "done_write"
        case .signedWrite, .ownerSignedWrite: "signed_write"
        case .recordType: "record_type"
        case .recordField: "record_field"
        case .retiredField: "retired_field"
        case .recordGrant: "record_grant"
        case .roleMember: "role_member"
        case .relay, .quota, .audit: table == .quota ? "quotas" : table.rawValue
        case .container: "containers"
        case .apiToken: "api_tokens"
        case .serverKey: "server_keys"
        case .managementToken: "management_tokens"
        case .account: "accounts"
        case .session: "sessions"
        case .containerUser: "users"
        case .issuer: "issuers"
        case .pushDevice: "push_devices"
        case .containerQuota: "container_quotas"
        case .operatorAccount: "operators"
        case .operatorLink: "operator_links"
        case .operatorSession: "operator_sessions"
        case .operatorPasskey: "operator_passkeys"
        }
    }

    /// The columns under their names here.
    var columns: [String] {
        table.columns.map { column in
            switch (table, column.name) {
            case (_, "person"), (.pushDevice, "user_name"): "user"
            case (.account, "method"): "is_dev"
            case (.issuer, "name"): "issuer"
            case (.pushDevice, "sandbox"): "is_sandbox"
            default: column.name
            }
        }
    }
    var keys: [String] { Array(columns.prefix(table.keyCount)) }

    /// The columns of `source`.
    var selected: String {
        guard table == .zone else {
            return columns.map { $0 == "is_sandbox" ? "coalesce(t.is_sandbox, 0)" : "t.\($0)" }.joined(separator: ", ")
        }
        return """
            t.identity, t.owner, t.name, s.last_change, s.record_bytes, s.asset_bytes, s.last_modified, \
            coalesce(h.change, 0), t.shared, t.deleted, t.ended, t.loss
            """
    }

    /// Returns the columns of the key, and nothing of the others.
    var selectedKeys: String {
        columns.enumerated().map { $0 < table.keyCount ? "t.\($1)" : "NULL" }.joined(separator: ", ")
    }

    /// `FROM ... WHERE ...` for all rows that move, with the alias `t`.
    var source: String {
        switch table {
        case .zone:
            "FROM zone_row t JOIN zone_stamp s ON s.zone = t.id LEFT JOIN zone_horizon h ON h.zone = t.id WHERE 1"
        case .record, .reference, .assetUse:
            "FROM \(name) t WHERE t.zone NOT IN (SELECT id FROM zone_row WHERE deleted = 1)"
        // Those of older generations are used no more.
        case .doneWrite, .ownerDoneWrite:
            """
            FROM (SELECT user, id, print, places, max(generation) FROM done_write
                WHERE generation >= (SELECT max(generation) - 1 FROM done_write) GROUP BY user, id) t WHERE 1
            """
        default: "FROM \(name) t WHERE 1"
        }
    }

    /// Returns the query for these rows.
    func select(_ selection: MoveSelection) -> String {
        let after = Int64(clamping: selection.after?.number ?? 0)
        switch table {
        case .record:
            let upTo = selection.upTo.map { " AND t.change <= \(Int64(clamping: $0))" } ?? ""
            let limit = selection.limit.map { " LIMIT \($0)" } ?? ""
            return "SELECT \(selected) \(source) AND t.change > \(after)\(upTo) ORDER BY t.change\(limit)"
        case .shareEntry where selection.after != nil:
            return """
                SELECT \(selected) FROM share s CROSS JOIN share_entry t INDEXED BY share_entry_by_change
                ON t.share = s.id AND t.change > \(after) WHERE s.last_change > \(after)
                """
        default: return "SELECT \(selected) \(source)"
        }
    }
}
