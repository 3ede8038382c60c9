import Foundation
import NotesModel
import Security

/// The web auth token in the Keychain of this device.
struct Keychain: TokenStorage {
    let service: String

    private var item: [CFString: String] {
        [kSecClass: kSecClassGenericPassword as String, kSecAttrService: service, kSecAttrAccount: "web auth token"]
    }

    func token() -> String? {
        var query: [CFString: Any] = item
        query[kSecReturnData] = true
        var found: CFTypeRef?
        guard SecItemCopyMatching(query as CFDictionary, &found) == errSecSuccess, let data = found as? Data else {
            return nil
        }
        return String(decoding: data, as: UTF8.self)
    }

    func keep(_ token: String?) {
        SecItemDelete(item as CFDictionary)
        guard let token else { return }
        var added: [CFString: Any] = item
        added[kSecValueData] = Data(token.utf8)
        // Pushes are handled while the device is locked.
        added[kSecAttrAccessible] = kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly
        SecItemAdd(added as CFDictionary, nil)
    }
}
