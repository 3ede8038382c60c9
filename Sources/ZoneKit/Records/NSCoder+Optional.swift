import Foundation

extension NSCoder {
    /// The object of a key, `nil` if there is none.
    ///
    /// Foundation on Linux ends the process when a key is missing and nobody asked first.
    func object<Object: NSObject & NSCoding>(_: Object.Type, _ key: String) -> Object? {
        containsValue(forKey: key) ? decodeObject(of: Object.self, forKey: key) : nil
    }

    /// The string of a key, `nil` if there is none.
    func text(_ key: String) -> String? { object(NSString.self, key) as String? }

    /// The data of a key, `nil` if there is none.
    func bytes(_ key: String) -> [UInt8]? { object(NSData.self, key).map { [UInt8]($0 as Data) } }

    /// The number of a key, 0 if there is none.
    func number(_ key: String) -> Int { containsValue(forKey: key) ? decodeInteger(forKey: key) : 0 }
}
