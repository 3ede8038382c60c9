import Records
import SyncCore

extension CKSyncEngine {
    /// Which zones to fetch, and which of them first.
    public struct FetchChangesOptions: Sendable {
        /// A set of zones.
        public enum Scope: Sendable, Hashable {
            /// Every zone of the database.
            case all
            /// Every zone but these.
            case allExcluding([CKRecordZone.ID])
            /// These zones only.
            case zoneIDs([CKRecordZone.ID])

            /// Says whether a zone is meant.
            public func contains(_ zoneID: CKRecordZone.ID) -> Bool { zones.contains(zoneID.zone) }
        }

        /// The zones to fetch.
        public var scope: Scope
        /// The group that the requests belong to, for the relay's log.
        public var operationGroup: CKOperationGroup
        /// Fetched before all others, in this order.
        public var prioritizedZoneIDs: [CKRecordZone.ID] = []

        /// Chooses what to fetch.
        ///
        /// - Parameters:
        ///   - scope: The zones to fetch.
        ///   - operationGroup: The group that the requests belong to; left out, a new one.
        public init(scope: Scope = .all, operationGroup: CKOperationGroup? = nil) {
            self.scope = scope
            self.operationGroup = operationGroup ?? CKOperationGroup()
        }
    }

    /// Why a fetch takes place, and what it would fetch.
    public struct FetchChangesContext: Sendable {
        /// Why it takes place.
        public let reason: SyncReason
        /// What it would fetch.
        public let options: FetchChangesOptions
    }

    /// Which changes to send.
    public struct SendChangesOptions: Sendable {
        /// A set of changes.
        public enum Scope: Sendable, Hashable {
            /// Every pending change.
            case all
            /// Every pending change but those in these zones.
            case allExcluding([CKRecordZone.ID])
            /// The changes in these zones.
            case zoneIDs([CKRecordZone.ID])
            /// The changes of these records.
            case recordIDs([CKRecord.ID])

            /// Says whether a record's changes are meant.
            public func contains(_ recordID: CKRecord.ID) -> Bool {
                if case .recordIDs(let records) = self { return records.contains(recordID) }
                return contains(recordID.zoneID)
            }

            /// Says whether a pending change is meant.
            public func contains(_ pendingRecordZoneChange: PendingRecordZoneChange) -> Bool {
                contains(pendingRecordZoneChange.recordID)
            }

            /// The same without what is in some zones.
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

            /// Says whether changes of the zone itself are meant.
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
        /// The group that the requests belong to, for the relay's log.
        public var operationGroup: CKOperationGroup

        /// Chooses what to send.
        ///
        /// - Parameters:
        ///   - scope: The changes to send.
        ///   - operationGroup: The group that the requests belong to; left out, a new one.
        public init(scope: Scope = .all, operationGroup: CKOperationGroup? = nil) {
            self.scope = scope
            self.operationGroup = operationGroup ?? CKOperationGroup()
        }
    }

    /// Why a send takes place, and what it is to send.
    public struct SendChangesContext: Sendable {
        /// Why it takes place.
        public let reason: SyncReason
        /// What it is to send.
        public let options: SendChangesOptions

        /// The same without what is in some zones.
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
