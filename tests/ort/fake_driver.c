/* A CUDA driver with one device of compute capability 9.0 that runs nothing: what the library does
 * before a launch can be tested where there is no GPU. */
typedef int result;

result cuInit(unsigned flags) { return (int)flags; }
result cuDeviceGetCount(int *count) { return *count = 1, 0; }
result cuDeviceGet(int *device, int index) { return *device = index, 0; }
result cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 9 : 0;
    return device;
}
result cuDeviceGetName(char *name, int length, int device) {
    const char text[] = "Fake GPU 9000";
    for (int i = 0; i < length && i < (int)sizeof text; i++) name[i] = text[i];
    return device;
}
result cuCtxGetCurrent(void **context) { return *context = 0, 0; }
result cuCtxGetDevice(int *device) { return *device = 0, 0; }
result cuModuleLoadDataEx(void) { return 1; }
result cuModuleGetFunction(void) { return 1; }
result cuGetErrorString(void) { return 1; }
result cuLaunchKernel(void) { return 1; }
