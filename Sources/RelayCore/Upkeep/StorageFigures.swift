package import Records

/// The files of one container and environment, inspected beside a running relay.
package struct StoreFiles: Sendable {
    package struct Asset: Sendable {
        /// The first 40 hex digits of the content's SHA-256; also the file's name.
        package var hash: String
        package var bytes: Int64
        package var isUsed: Bool
        /// When it was last uploaded.
        package var came: Timestamp

        package init(hash: String, bytes: Int64, isUsed: Bool, came: Timestamp) {
            self.hash = hash
            self.bytes = bytes
            self.isUsed = isUsed
            self.came = came
        }
    }

    /// The version of the file's layout.
    package var layout = 0
    /// The sizes of the records' file and of its log.
    package var bytes: Int64 = 0
    package var logBytes: Int64 = 0
    package var assets: [Asset] = []
    /// Assets that records use but that do not exist.
    package var missing: [String] = []

    package init() {}
}

/// The storage use of one container and environment by owner, for the operator; read beside a running relay.
package struct StorageReport: Sendable {
    /// The storage use of one user.
    package struct Owner: Sendable {
        package var user: UserID
        package var use: StorageUse
        package var zones: Int

        package init(user: UserID, use: StorageUse, zones: Int) {
            self.user = user
            self.use = use
            self.zones = zones
        }
    }

    package var publicUse = StorageUse()
    package var users = 0
    /// Bytes that the public database has sent in the month.
    package var sent: Int64 = 0
    /// The users with the greatest use, in descending order.
    package var owners: [Owner] = []

    package init() {}
}
