#if Postgres
    import StoreKit

    /// How a table that moves is stored here.
    struct PostgresMoveTable {
        let table: MovedTable
        /// Its name.
        let name: String
        /// The columns that identify a row, for `ON CONFLICT`.
        let conflict: String
        /// Columns that rows do not bring, with their values.
        let added: [(name: String, value: String)]
        private let home: HomeRow
        private let scope: MoveScope

        init(_ table: MovedTable, of home: HomeRow, _ scope: MoveScope) {
            self.table = table
            self.home = home
            self.scope = scope
            name = Self.name(of: table)
            let keys = table.columns.prefix(table.keyCount).map(\.name)
            switch table {
            case .share, .recordType, .role, .roleMember, .transfer:
                conflict = (["home"] + keys).joined(separator: ", ")
                added = [("home", "\(home.number)")]
            case .zone:
                // Rows of a zone that was deleted before it came never came.
                conflict = ""
                added = [("home", "\(home.number)"), ("purged", "deleted")]
            case .subscription:
                conflict = keys.joined(separator: ", ")
                added = [("home", "\(home.number)")]
            default:
                conflict = keys.joined(separator: ", ")
                added = []
            }
        }

        private static func name(of table: MovedTable) -> String {
            switch table {
            case .zone, .record, .reference, .share, .participant, .subscription, .role, .transfer: table.rawValue
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
            case .relay, .container, .account, .session, .issuer, .quota, .audit: table.rawValue
            case .apiToken: "api_token"
            case .serverKey: "server_key"
            case .managementToken: "management_token"
            case .containerUser: "container_user"
            case .pushDevice: "push_device"
            case .containerQuota: "container_quota"
            case .operatorAccount: "operator"
            case .operatorLink: "operator_link"
            case .operatorSession: "operator_session"
            case .operatorPasskey: "operator_passkey"
            }
        }

        /// The columns that rows bring, in their order.
        var columns: [String] { table.columns.map(\.name) }
        var keys: [String] { Array(columns.prefix(table.keyCount)) }

        /// Returns the columns with the alias `t`.
        var selected: String { columns.map { "t.\($0)" }.joined(separator: ", ") }

        /// Returns the columns of the key, and nothing of the others.
        var selectedKeys: String {
            table.columns.enumerated().map { index, column in
                if index < table.keyCount { return "t.\(column.name)" }
                return switch column.kind {
                case .bool: "NULL::boolean"
                case .text: "NULL::text"
                case .bytes: "NULL::bytea"
                default: "NULL::bigint"
                }
            }.joined(separator: ", ")
        }

        private var zones: String {
            switch scope {
            case .home, .relay: "z.home = \(home.number) AND NOT z.deleted"
            case .owner(let owner): "z.owner = \(owner) AND NOT z.deleted"
            }
        }

        private var shares: String {
            switch scope {
            case .home, .relay: "JOIN share s ON s.id = t.share WHERE s.home = \(home.number)"
            case .owner(let owner):
                "JOIN share s ON s.id = t.share JOIN zone z ON z.id = s.zone WHERE z.owner = \(owner)"
            }
        }

        /// `FROM ... WHERE ...` for all rows that move, with the alias `t`.
        var source: String {
            switch (table, scope) {
            case (_, .relay): return "FROM \(name) t WHERE true"
            case (.zone, .home), (.subscription, .home), (.share, .home), (.recordType, _), (.role, _),
                (.roleMember, _),
                (.transfer, _):
                return "FROM \(name) t WHERE t.home = \(home.number)"
            case (.zone, .owner(let owner)), (.ownerDoneWrite, .owner(let owner)),
                (.ownerSignedWrite, .owner(let owner)):
                return "FROM \(name) t WHERE t.owner = \(owner)"
            case (.subscription, .owner(let owner)): return "FROM subscription t WHERE t.person = \(owner)"
            case (.share, .owner(let owner)):
                return "FROM share t JOIN zone z ON z.id = t.zone WHERE z.owner = \(owner)"
            case (.record, _), (.reference, _), (.assetUse, _):
                return "FROM zone z JOIN \(name) t ON t.zone = z.id WHERE \(zones)"
            case (.sharedZone, .home):
                return "FROM zone z JOIN shared_zone t ON t.zone = z.id WHERE z.home = \(home.number)"
            case (.sharedZone, .owner(let owner)):
                return "FROM zone z JOIN shared_zone t ON t.zone = z.id WHERE z.owner = \(owner)"
            case (.participant, _), (.shareRequest, _), (.shareAlias, _), (.shareEntry, _):
                return "FROM \(name) t \(shares)"
            case (.doneWrite, _):
                return """
                    FROM (SELECT DISTINCT ON (d.person, d.id) d.* FROM done_write d
                        ORDER BY d.person, d.id, d.at DESC, d.owner) t
                    JOIN person p ON p.id = t.person WHERE p.home = \(home.number)
                    """
            case (.signedWrite, _):
                return """
                    FROM (SELECT DISTINCT w.signed_at, w.fingerprint FROM signed_write w
                        JOIN person p ON p.id = w.owner WHERE p.home = \(home.number)) t WHERE true
                    """
            case (.recordField, _), (.retiredField, _), (.recordGrant, _):
                return "FROM \(name) t JOIN record_type y ON y.id = t.type WHERE y.home = \(home.number)"
            case (.ownerDoneWrite, .home), (.ownerSignedWrite, .home):
                return "FROM \(name) t JOIN person p ON p.id = t.owner WHERE p.home = \(home.number)"
            default: return "FROM \(name) t WHERE false"
            }
        }

        /// Returns the query for these rows.
        ///
        /// `zones` are the zones that have changed since the selection's position, with the number of the position.
        func select(_ selection: MoveSelection, changed zones: [(zone: Int64, after: UInt64)]) -> String {
            let limit = selection.limit.map { " LIMIT \($0)" } ?? ""
            guard selection.after != nil else { return "SELECT \(selected) \(source)\(limit)" }
            let numbers = zones.map { "\($0.zone)" }.joined(separator: ",")
            let positions = zones.map { "\(Int64(clamping: $0.after))" }.joined(separator: ",")
            let changed = "unnest('{\(numbers)}'::bigint[], '{\(positions)}'::bigint[]) AS c (zone, change)"
            guard table == .record else {
                return """
                    SELECT \(selected) FROM \(changed) JOIN share s ON s.zone = c.zone
                    JOIN share_entry t ON t.share = s.id AND t.change > c.change\(limit)
                    """
            }
            // Live and deleted records have indexes of their own.
            return ["NOT t.deleted", "t.deleted"].map { state in
                """
                SELECT \(selected) FROM \(changed) JOIN zone z ON z.id = c.zone AND NOT z.deleted
                JOIN record t ON t.zone = c.zone AND \(state) AND t.change > c.change
                """
            }.joined(separator: " UNION ALL ") + limit
        }
    }
#endif
