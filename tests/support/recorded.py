"""What tools and kernels print, in the shape that public reports record; each names its source.

Device names and versions may be another machine's than the report's; keys, columns, order and spacing are theirs.
"""

from __future__ import annotations

# triton-inference-server/server#8070: --query-gpu=... --format=csv; noheader and nounits leave out the first line
# and the units.
NVIDIA_SMI = "NVIDIA H100 80GB HBM3, 580.105.08, 81559, 9.0\nNVIDIA H100 80GB HBM3, 580.105.08, 81559, 9.0\n"
NVIDIA_SMI_OLD = (
    "NVIDIA TITAN V, 570.86.15, 12288, 7.0\nNVIDIA RTX 5880 Ada Generation, 570.86.15, 49140, 8.9\n"
)
# huggingface/candle#733: a 470 driver does not know the column, and ends with 2.
NVIDIA_SMI_NO_COLUMN = 'Field "compute_cap" is not a valid field to query.\n'
# anderskm/gputil#55: exit code 18
NVIDIA_SMI_MISMATCH = (
    "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161\n"
)
# GoogleCloudPlatform/compute-gpu-installation#18: exit code 9
NVIDIA_SMI_NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running.\n"
)
# The memory of a Grace-Blackwell chip is the machine's: bigger than a number, smaller than a unit (assumed shape).
NVIDIA_SMI_GB10 = "NVIDIA GB10, 580.95.05, [N/A], 12.1\n"
# /proc/driver/nvidia/version of the open and of the closed module (guibou/nixGL's own test data)
NVIDIA_PROC_OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.77  Release Build  (nixbld@)  Sun Feb  9 11:08:26 "
    "UTC 2025\nGCC version:  gcc version 13.3.0 (GCC)\n"
)
NVIDIA_PROC_CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  510.54  Wed Apr  1 20:04:33 UTC 2020\n"
    "GCC version:  gcc version 9.3.0 (Arch Linux 9.3.0-1)\n"
)
# ROCm/rocm_smi_lib#159 (ROCm 6 writes `Card Series` and `GFX Version`)
ROCM_SMI = """{
  "card0": {
    "Card Series": "AMD INSTINCT MI200 (MCM) OAM LC MBA HPE C2",
    "Card Model": "0x7408",
    "Card Vendor": "Advanced Micro Devices, Inc. [AMD/ATI]",
    "Card SKU": "D65201",
    "Subsystem ID": "0x0b0c",
    "Device Rev": "0x00",
    "Node ID": "7",
    "GUID": "58294",
    "GFX Version": "gfx9010",
    "VRAM Total Memory (B)": "68702699520"
  },
  "system": {"Driver version": "6.3.6"}
}
"""
# easybuilders/easybuild-framework#3978 (ROCm 5 writes `Card series`); a warning before it, as rocm-smi prints one
ROCM_SMI_5 = """WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status

{"card10": {"Card series": "Arcturus GL-XL [AMD Instinct MI100]", "Card model": "0x0c34", "Card SKU": "D34316"},
 "card2": {"Card series": "Arcturus GL-XL [AMD Instinct MI100]", "Card model": "0x0c34", "Card SKU": "D34316"},
 "system": {"Driver version": "4.18.0-348.12.2.el8_5.x86_64"}}
"""
# intel/xpumanager#127 (v2 lists properties with the device), and the device list of xpu-smi 1
XPU_SMI = """{
    "device_list": [
        {
            "device_function_type": "physical",
            "device_id": 0,
            "device_name": "Intel(R) Data Center GPU Max 1100",
            "device_type": "GPU",
            "drm_device": "/dev/dri/card1",
            "memory_physical_size_byte": "51539607552",
            "pci_bdf_address": "0000:29:00.0",
            "pci_device_id": "0xbda",
            "uuid": "00000000-0000-0029-0000-002f0bda8086",
            "vendor_name": "Intel(R) Corporation"
        },
        {
            "device_function_type": "virtual",
            "device_id": 1,
            "device_name": "Intel(R) Data Center GPU Max 1100",
            "device_type": "GPU",
            "drm_device": "/dev/dri/card2",
            "uuid": "00000000-0000-0029-0000-012f0bda8086",
            "vendor_name": "Intel(R) Corporation"
        }
    ]
}
"""
# intel/xpumanager's own source: without Level Zero there is an error instead
XPU_SMI_ERROR = '{"errno": 3, "error": "Level Zero Initialization Error"}\n'
# many public logs of macOS 15: two tabs
SW_VERS = "ProductName:\t\tmacOS\nProductVersion:\t\t15.6.1\nBuildVersion:\t\t24G90\n"
OS_RELEASE = 'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\n# a comment=1\nID=ubuntu\n'
# Linux's KFD topology: a CPU's node, and GPUs as ROCm names them
KFD_CPU = "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\nvendor_id 0\n"
KFD_GPU = "cpu_cores_count 0\nsimd_count 440\ngfx_target_version {version}\nvendor_id 4098\ndevice_id 29704\n"
