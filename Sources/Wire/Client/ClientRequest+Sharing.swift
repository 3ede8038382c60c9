extension ClientRequest {
    /// What the save of a share says beside its fields.
    ///
    /// Wire reference 6.
    package struct ShareWrite: Hashable, Sendable {
        /// The root, with its change tag where it is not saved in the same request; `nil`: the whole zone, or a share
        /// that exists.
        package var root: (name: String, changeTag: String?)?
        package var publicPermission: String?
        /// All of them, the new ones without a number; `nil`: as they are.
        package var participants: [ClientShare.Participant]?

        package init() {}

        package static func == (a: ShareWrite, b: ShareWrite) -> Bool {
            a.root?.name == b.root?.name && a.root?.changeTag == b.root?.changeTag
                && a.publicPermission == b.publicPermission && a.participants == b.participants
        }

        package func hash(into hasher: inout Hasher) {
            hasher.combine(root?.name)
            hasher.combine(publicPermission)
            hasher.combine(participants)
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
        }
    }

    /// `records/resolve` and `records/accept`.
    ///
    /// Wire reference 10.
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
    /// Wire reference 14.
    package static func discover(_ lookups: [ClientIdentity.Lookup]) -> [UInt8] {
        body { object in
            object.key("lookupInfos")
            object.array(lookups) { $1.write(to: &$0) }
        }
    }
}
