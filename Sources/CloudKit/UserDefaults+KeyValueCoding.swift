#if !canImport(Darwin)
    public import Foundation

    extension UserDefaults {
        /// Sets a value, with the key-value coding that Apple's samples for CloudKit use.
        public func setValue(_ value: Any?, forKey key: String) { set(value, forKey: key) }

        /// Returns a value, with key-value coding as on Apple platforms.
        public func value(forKey key: String) -> Any? { object(forKey: key) }
    }
#endif
