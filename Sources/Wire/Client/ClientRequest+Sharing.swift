extension ClientRequest {
    /// The members of a share record besides its fields.
    ///
    /// See Wire.md, "Saving records".
    package struct ShareWrite: Hashable, Sendable {
        /// The root record, with its change tag unless it is saved in the same request.
        ///
        /// `nil` for a zone-wide share, and for an existing share.
        package var root: (name: String, changeTag: String?)?
        package var publicPermission: String?
        /// All participants, new ones without an ID; `nil` leaves them unchanged.
        package var participants: [ClientShare.Participant]?
        /// Changes to access requests; `nil` for none.
        package var accessRequests: AccessRequestsWrite?

        package init() {}

        package static func == (a: ShareWrite, b: ShareWrite) -> Bool {
            a.root?.name == b.root?.name && a.root?.changeTag == b.root?.changeTag
                && a.publicPermission == b.publicPermission && a.participants == b.participants
                && a.accessRequests == b.accessRequests
        }

        package func hash(into hasher: inout Hasher) {
            hasher.combine(root?.name)
            hasher.combine(root?.changeTag)
            hasher.combine(publicPermission)
            hasher.combine(participants)
            hasher.combine(accessRequests)
        }

        func write(to record: inout JSONWriter) {
            if let root {
                record.key("forRecord")
                record.object { object in
                    object.member("recordName", root.name)
                    if let tag = root.changeTag { object.member("recordChangeTag", tag) }
                }
            }
            if let publicPermission { record.member("publicPermission", publicPermission) }
            if let participants {
                record.key("participants")
                record.array(participants) { $1.write(to: &$0) }
            }
            if let accessRequests {
                record.key("accessRequests")
                accessRequests.write(to: &record)
            }
        }
    }

    /// Changes to a share's access requests; the lists contain user record names.
    package struct AccessRequestsWrite: Hashable, Sendable {
        package var isAllowed: Bool?
        package var denied: [String] = []
        package var blocked: [String] = []
        package var unblocked: [String] = []

        package init() {}

        func write(to record: inout JSONWriter) {
            record.object { object in
                if let isAllowed { object.member("allowed", isAllowed) }
                object.key("deny")
                object.array(denied) { $0.string($1) }
                object.key("block")
                object.array(blocked) { $0.string($1) }
                object.key("unblock")
                object.array(unblocked) { $0.string($1) }
            }
        }
    }

    /// `records/resolve` and `records/accept`.
    ///
    /// See Wire.md, "Accepting shares".
    package static func shares(
        _ shortGUIDs: [String],
        fetchingRoots: Bool = false,
        rootKeys: [String]? = nil
    ) -> [UInt8] {
        body { object in
            object.key("shortGUIDs")
            object.array(shortGUIDs) { list, value in
                list.object { entry in
                    entry.member("value", value)
                    guard fetchingRoots else { return }
                    entry.member("shouldFetchRootRecord", true)
                    guard let rootKeys else { return }
                    entry.key("rootRecordDesiredKeys")
                    entry.array(rootKeys) { $0.string($1) }
                }
            }
        }
    }

    /// `users/discover`.
    ///
    /// See Wire.md, "User operations".
    package static func discover(_ lookups: [ClientIdentity.Lookup]) -> [UInt8] {
        body { object in
            object.key("lookupInfos")
            object.array(lookups) { $1.write(to: &$0) }
        }
    }
}
