import Records
import SyncCore

extension CKSyncEngine {
    /// The zones that a fetch includes, and the order in which it fetches them.
    public struct FetchChangesOptions: Sendable {
        /// The set of zones to fetch.
        public enum Scope: Sendable, Hashable {
            /// All zones of the database.
            case all
            /// All zones except these.
            case allExcluding([CKRecordZone.ID])
            /// Only these zones.
            case zoneIDs([CKRecordZone.ID])

            /// Returns whether the scope includes a zone.
            public func contains(_ zoneID: CKRecordZone.ID) -> Bool { zones.contains(zoneID.zone) }
        }

        /// The zones to fetch.
        public var scope: Scope
        /// The group that the requests belong to; the relay's log shows it.
        public var operationGroup: CKOperationGroup
        /// The zones that are fetched first, in this order.
        public var prioritizedZoneIDs: [CKRecordZone.ID] = []

        /// Creates options for a fetch.
        ///
        /// - Parameters:
        ///   - scope: The zones to fetch.
        ///   - operationGroup: The group that the requests belong to. The default is a new group.
        public init(scope: Scope = .all, operationGroup: CKOperationGroup? = nil) {
            self.scope = scope
            self.operationGroup = operationGroup ?? CKOperationGroup()
        }
    }

    /// The reason for a fetch, and what it fetches by default.
    public struct FetchChangesContext: Sendable {
        /// The reason for the fetch.
        public let reason: SyncReason
        /// The options that the engine uses unless the delegate returns others.
        public let options: FetchChangesOptions
    }

    /// The changes that a send includes.
    public struct SendChangesOptions: Sendable {
        /// The set of changes to send.
        public enum Scope: Sendable, Hashable {
            /// All pending changes.
            case all
            /// All pending changes except those in these zones.
            case allExcluding([CKRecordZone.ID])
            /// Only the changes in these zones.
            case zoneIDs([CKRecordZone.ID])
            /// Only the changes of these records.
            case recordIDs([CKRecord.ID])

            /// Returns whether the scope includes the changes of a record.
            public func contains(_ recordID: CKRecord.ID) -> Bool {
                if case .recordIDs(let records) = self { return records.contains(recordID) }
                return contains(recordID.zoneID)
            }

            /// Returns whether the scope includes a pending change.
            public func contains(_ pendingRecordZoneChange: PendingRecordZoneChange) -> Bool {
                contains(pendingRecordZoneChange.recordID)
            }

            /// Returns the scope without the changes in some zones.
            func leavingOut(_ zones: Set<ZoneID>) -> Scope {
                guard !zones.isEmpty else { return self }
                let left = zones.map { CKRecordZone.ID($0) }.sorted { $0.zoneName < $1.zoneName }
                switch self {
                case .all: return .allExcluding(left)
                case .allExcluding(let others): return .allExcluding(others + left)
                case .zoneIDs(let wanted): return .zoneIDs(wanted.filter { !zones.contains($0.zone) })
                case .recordIDs(let wanted): return .recordIDs(wanted.filter { !zones.contains($0.zoneID.zone) })
                }
            }

            /// Returns whether the scope includes the changes of a zone itself.
            func contains(_ zoneID: CKRecordZone.ID) -> Bool {
                switch self {
                case .all: true
                case .allExcluding(let zones): !zones.contains(zoneID)
                case .zoneIDs(let zones): zones.contains(zoneID)
                case .recordIDs(let records): records.contains { $0.zoneID == zoneID }
                }
            }
        }

        /// The changes to send.
        public var scope: Scope
        /// The group that the requests belong to; the relay's log shows it.
        public var operationGroup: CKOperationGroup

        /// Creates options for a send.
        ///
        /// - Parameters:
        ///   - scope: The changes to send.
        ///   - operationGroup: The group that the requests belong to. The default is a new group.
        public init(scope: Scope = .all, operationGroup: CKOperationGroup? = nil) {
            self.scope = scope
            self.operationGroup = operationGroup ?? CKOperationGroup()
        }
    }

    /// The reason for a send, and what it sends.
    public struct SendChangesContext: Sendable {
        /// The reason for the send.
        public let reason: SyncReason
        /// The changes to send.
        public let options: SendChangesOptions

        /// Returns the context without the changes in some zones.
        func leavingOut(_ zones: Set<ZoneID>) -> SendChangesContext {
            var options = options
            options.scope = options.scope.leavingOut(zones)
            return SendChangesContext(reason: reason, options: options)
        }
    }
}

extension CKSyncEngine.FetchChangesOptions.Scope {
    var zones: ZoneScope {
        switch self {
        case .all: .all
        case .allExcluding(let ids): .allExcluding(Set(ids.map(\.zone)))
        case .zoneIDs(let ids): .only(Set(ids.map(\.zone)))
        }
    }
}
