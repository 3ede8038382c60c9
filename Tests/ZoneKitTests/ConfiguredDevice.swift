import Foundation
import ZoneKit
import ZoneTesting

extension TestDevice {
    /// Configures the device's container to use the test's relay through this device's network, as a program does.
    func configure(as user: String, encryptionKey: (any EncryptionKeyProvider)? = nil) throws -> CKContainer {
        guard let nowhere = URL(string: "http://127.0.0.1:9") else { throw CKError(.internalError) }
        var endpoint = RelayEndpoint.dev(nowhere, user: user, deviceID: connection.deviceID)
        endpoint.network = (network, connection.sockets)
        endpoint.encryptionKey = encryptionKey
        CKContainer.configure(endpoint, for: connection.container)
        return CKContainer(identifier: connection.container)
    }
}

extension TestRelay {
    /// Returns a device whose container no other test configures.
    func configurableDevice(of user: String) -> TestDevice {
        device(of: user, named: "phone", container: "iCloud.org.example.c\(UUID().uuidString.lowercased().prefix(8))")
    }
}
