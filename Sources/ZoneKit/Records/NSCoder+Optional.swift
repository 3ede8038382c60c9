import Foundation

extension NSCoder {
    /// Decodes the object for a key, or returns `nil` if there is none.
    ///
    /// Foundation on Linux traps if the key is missing and was not checked before.
    func object<Object: NSObject & NSCoding>(_: Object.Type, _ key: String) -> Object? {
        containsValue(forKey: key) ? decodeObject(of: Object.self, forKey: key) : nil
    }

    /// Decodes the string for a key, or returns `nil` if there is none.
    func text(_ key: String) -> String? { object(NSString.self, key) as String? }

    /// Decodes the data for a key, or returns `nil` if there are none.
    func bytes(_ key: String) -> [UInt8]? { object(NSData.self, key).map { [UInt8]($0 as Data) } }

    /// Decodes the number for a key, or returns 0 if there is none.
    func number(_ key: String) -> Int { containsValue(forKey: key) ? decodeInteger(forKey: key) : 0 }
}
