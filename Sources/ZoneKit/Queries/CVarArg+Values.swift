#if !canImport(Darwin)
    public import Foundation

    // On Apple's systems these pass as `CVarArg` through their Objective-C forms, so programs write `date as CVarArg` in the
    // arguments of predicates. Here predicates take any value; the conformances only let the cast compile. Printed with
    // `String(format:)` they would be their address, as any object is.

    extension NSObject: @retroactive CVarArg {
        /// The object's address.
        public var _cVarArgEncoding: [Int] { [Int(bitPattern: Unmanaged.passUnretained(self).toOpaque())] }
    }

    extension Date: @retroactive CVarArg {
        /// Nothing that could be printed.
        public var _cVarArgEncoding: [Int] { [0] }
    }

    extension UUID: @retroactive CVarArg {
        /// Nothing that could be printed.
        public var _cVarArgEncoding: [Int] { [0] }
    }

    extension Data: @retroactive CVarArg {
        /// Nothing that could be printed.
        public var _cVarArgEncoding: [Int] { [0] }
    }

    extension URL: @retroactive CVarArg {
        /// Nothing that could be printed.
        public var _cVarArgEncoding: [Int] { [0] }
    }
#endif
