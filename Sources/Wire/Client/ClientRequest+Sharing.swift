extension ClientRequest {
    /// What the save of a share says beside its fields.
    ///
    /// See Wire.md, "Saving records".
    package struct ShareWrite: Hashable, Sendable {
        /// The root, with its change tag where it is not saved in the same request; `nil`: the whole zone, or a share
        /// that exists.
        package var root: (name: String, changeTag: String?)?
        package var publicPermission: String?
        /// All of them, the new ones without a number; `nil`: as they are.
        package var participants: [ClientShare.Participant]?
        /// What is to become of requests for access; `nil`: nothing.
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

    /// What the save of a share says of requests for access: record names of users.
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
