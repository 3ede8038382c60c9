import Foundation
import Records
import Synchronization
public import ZoneKit

/// One device of one user, joined to a `TestRelay` by a network that can be cut.
public final class TestDevice: Sendable {
    /// The name of the device's user; `nil` for somebody who is not signed in.
    public let user: String?
    /// What the device is called.
    public let name: String
    /// The container as a program on this device has it.
    public let container: CKContainer
    /// The way to the relay.
    public let network: TestNetwork

    package let connection: RelayConnection

    init(
        relay: TestRelay,
        user: String?,
        name: String,
        container: String,
        encryptionKey: (any EncryptionKeyProvider)? = nil
    ) {
        self.user = user
        self.name = name
        network = TestNetwork(relay: relay)
        var connection = RelayConnection(
            container: container,
            url: nil,
            credentials: RelayCredentials(apiToken: nil, webAuthToken: user.map { "dev-\($0)" }),
            deviceID: "\(user ?? "nobody")-\(name)",
            transport: network
        )
        connection.sockets = TestSockets(network: network)
        connection.encryptionKey = encryptionKey
        self.connection = connection
        self.container = CKContainer(connection: connection)
    }

    /// The user's own data.
    public var privateDatabase: CKDatabase { container.privateCloudDatabase }
    /// Everybody's data.
    public var publicDatabase: CKDatabase { container.publicCloudDatabase }
    /// What others share with the user.
    public var sharedDatabase: CKDatabase { container.sharedCloudDatabase }
}
